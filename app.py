"""The Gradio demo: a question in, an answer streamed out, with a line that a machine wrote it.

python app.py --model outputs/quickstart

On a Space the model comes from the environment variable WENZHEN_MODEL.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wenzhen.answering.decoding import DECODINGS, decoding_named
from wenzhen.errors import UsageError, run

if TYPE_CHECKING:
    import gradio as gr

    from wenzhen.answering.answerer import Answerer

DEFAULT_MODEL = "outputs/quickstart"
TITLE = "问诊 wenzhen"
INTRODUCTION = """# 问诊 wenzhen
从零训练的中文医疗问答演示模型。每个问题单独回答，不记得上文，也不保存问题。

*A Chinese medical question-answering model trained from scratch.
It answers each question by itself and stores none.*"""
WARNING = """⚠️ **回答由机器生成，可能有错；它不是医生，不能代替诊断和处方。紧急情况请拨打 120。**
*A machine writes the answers. It can be wrong, and it is no doctor. In an emergency call 120.*"""
EXAMPLES = [
    "我今年55岁，上个月体检发现高血压。平时要注意什么？",
    "孩子3岁，这几天被诊断为手足口病。什么情况下要去医院？",
    "女，28岁，最近查出缺铁性贫血。饮食上要注意什么？",
    "痔疮有什么症状？",
    "男，46岁，前几天确诊良性前列腺增生，有点担心。一般用什么药？",
    "我父亲62岁，半个月前查出胃癌。需要做哪些检查项目？",
]
DECODING_LABELS = {
    "greedy": "贪心：每步取最可能的字 · greedy",
    "beam": "束搜索：比较4条路径，写完才显示 · beam search",
    "sampling": "采样：每次不同 · sampling",
}
# Nothing of a visitor's questions is kept or shown.
LAUNCH = {"footer_links": [], "run_history": False, "enable_monitoring": False}
# Waiting visitors beyond this are told to come back later.
QUEUE_SIZE = 32


def build_demo(answerer: "Answerer") -> "gr.Blocks":
    """Wire the page: question and decoding, beside them the answer, examples below."""
    import gradio as gr

    def reply(question: str, decoding: str) -> Iterator[str]:
        # The last answer must not stand beside a question that it does not answer.
        yield ""
        try:
            yield from answerer.stream(question or "", decoding_named(decoding))
        except UsageError as error:
            raise gr.Error(f"无法回答：{error}", print_exception=False) from None

    with gr.Blocks(title=TITLE, analytics_enabled=False) as demo:
        gr.Markdown(INTRODUCTION)
        with gr.Row():
            with gr.Column():
                question = gr.Textbox(
                    label="问题 Question",
                    placeholder=f"请用中文描述病情和问题（最多{answerer.engine.max_question_length}字）",
                    lines=4,
                )
                decoding = gr.Radio(
                    choices=[(DECODING_LABELS[name], name) for name in DECODINGS],
                    value="greedy",
                    label="解码方式 Decoding",
                )
                ask = gr.Button("提问 Ask", variant="primary")
            with gr.Column():
                answer = gr.Textbox(label="回答 Answer", lines=8, interactive=False, buttons=["copy"])
                gr.Markdown(WARNING)
        gr.Examples(EXAMPLES, question, cache_examples=False, label="例子 Examples")
        gr.on(
            [ask.click, question.submit],
            reply,
            inputs=[question, decoding],
            outputs=answer,
            api_name="answer",
            show_progress="minimal",
            concurrency_limit=2,
        )
    return demo.queue(max_size=QUEUE_SIZE)


def main(argv: Sequence[str]) -> int:
    """Load the model and serve the page until it is stopped."""
    parser = argparse.ArgumentParser(description="Serve a trained model as a web page.")
    parser.add_argument(
        "--model",
        type=Path,
        default=os.environ.get("WENZHEN_MODEL", DEFAULT_MODEL),
        help="model folder (default: $WENZHEN_MODEL, else outputs/quickstart)",
    )
    parser.add_argument("--host", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    arguments = parser.parse_args(argv)

    from wenzhen.answering.answerer import Answerer

    demo = build_demo(Answerer(arguments.model))
    _, url, _ = demo.launch(
        server_name=arguments.host, server_port=arguments.port, quiet=True, prevent_thread_lock=True, **LAUNCH
    )
    print(f"demo: {url}  (Ctrl-C stops it)", flush=True)
    demo.block_thread()
    return 0


if __name__ == "__main__":
    sys.exit(run(main))

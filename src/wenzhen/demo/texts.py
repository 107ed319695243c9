"""The words of the demo, Chinese first, English behind it."""

from wenzhen.answering.answer import NOT_COVERED, UNCHECKED, UNSURE

TITLE = "问诊 wenzhen"
HEADER = (
    "从零训练的中文医疗问答演示。每个问题单独回答，不记得上文；不保存任何问题。",
    "A Chinese medical question-answering model, trained from scratch. Each question is answered by itself; none is "
    "stored.",
)
# Stands beside every answer.
WARNING = (
    "回答由机器生成，可能有错；它不是医生，不能代替诊断和处方。紧急情况请拨打 120。",
    "A machine writes the answers. They can be wrong; it is no doctor, and none is a diagnosis or a prescription. "
    "In an emergency call 120.",
)

CAVEATS_ENGLISH = {
    NOT_COVERED: "No consultation of the corpus is near this question, so nothing is answered. Ask in other words, "
    "one thing about one illness at a time. If it is serious, or about a small child, a pregnancy or an old person, "
    "do not wait here: see a doctor now, or call 120.",
    UNCHECKED: "There are no consultations to compare with, so nobody can tell whether the corpus covers this "
    "question: the answer may have nothing to do with it.",
    UNSURE: "The model is unsure of this answer: compare the consultations below, and go by a doctor.",
}

TABS = {
    "ask": "提问 Ask",
    "compare": "比较 Compare",
    "attention": "注意力 Attention",
    "about": "关于 About",
}
QUESTION = "问题 Question"
QUESTION_HELP = "用中文描述病情，问一件事；最多 {limit} 字。Shift+Enter 提问 · at most {limit} characters"
QUESTION_PLACEHOLDER = "例如：孩子3岁，这几天被诊断为手足口病。什么情况下要去医院？"
ASK, STOP = "提问 Ask", "停止 Stop"
ANSWER = "回答 Answer"
MODEL = "模型 Model"
LEFT, RIGHT = "甲 A", "乙 B"
HEAD = "层和头 Layer and head"
ALL_HEADS = "全部的平均 mean of all"
HEAD_NAME = "第 {layer} 层，第 {head} 头 · layer {layer}, head {head}"

# Name of a way to decode, as programs give it -> as the page shows it. `own` is the model's own way.
OWN = "own"
DECODINGS = {
    OWN: "模型自带 model's own",
    "greedy": "贪心 greedy",
    "beam": "束搜索 beam",
    "sampling": "采样 sampling",
}
DECODING = "解码方式 Decoding"
FINER = "细调 Finer settings"
DECODING_HELP = {
    OWN: (
        "按模型文件夹里的设置来写：{own}。",
        "As the model's own settings say: {own}.",
    ),
    "greedy": (
        "每一步取最可能的字；同一个问题总是同一个回答。",
        "The likeliest character at every step: the same question always gets the same answer.",
    ),
    "beam": (
        "同时保留几条路径，取总概率最高的一条；更慢，写完才显示。",
        "Keeps several drafts and takes the one that is likeliest as a whole: slower, and shown when it is finished.",
    ),
    "sampling": (
        "按概率抽签；每次不同，温度越高越敢说，也越容易说错。",
        "Draws by probability: different each time; a higher temperature dares more, and errs more.",
    ),
}
# Setting -> its name and what it does.
SETTINGS = {
    "num_beams": ("束宽 Beams", "同时保留几条路径 · drafts kept at a time"),
    "length_penalty": ("长度惩罚 α", "越大越偏爱长回答 · larger favours longer answers"),
    "temperature": ("温度 Temperature", "低于 1 更保守，高于 1 更随意 · below 1 cautious, above 1 free"),
    "top_p": ("Top-p", "只从累计概率达到此值的字里抽 · draws from the likeliest characters up to this sum"),
    "repetition_penalty": ("重复惩罚 Repetition penalty", "1 为不惩罚 · 1 is none"),
    "no_repeat_ngram_size": ("禁止重复的字数 No n-gram twice", "0 为不禁止 · 0 forbids nothing"),
}

# What keeps a question from being answered -> what its visitor reads.
EMPTY = ("问题是空的，请用一句话提问。", "The question is empty; ask in a sentence.")
NOT_TEXT = ("问题必须是文字。", "The question must be a text.")
TOO_LONG = (
    "问题有 {length:,} 个字，这个模型最多读 {limit:,} 个；请缩短。",
    "The question has {length:,} characters; this model reads at most {limit:,}: shorten it.",
)
TOO_MANY_BEAMS = ("束宽最多 {limit}，收到 {given}。", "At most {limit} beams, got {given}.")
REFUSED = ("无法这样回答：{reason}", "This cannot be answered: {reason}")
FAILED = ("出错了，没有写出回答；请再试一次。", "Something went wrong and there is no answer; try again.")
NO_ANSWER_YET = ("先在“提问”页得到一个回答。", "Get an answer on the page “Ask” first.")
NO_ATTENTION = (
    "这个模型由 {engine} 运行，它不给出注意力权重；用 PyTorch 的模型文件夹（wenzhen train 的输出）启动即可看到。",
    "This model runs on {engine}, which gives no attention weights; start the demo on the folder that wenzhen train "
    "left.",
)
NOT_DRAWN = ("画不出来：{reason}", "This cannot be drawn: {reason}")
QUEUE_FULL = "排队的人太多，请稍后再试。Too many people are waiting; try again later."
TOO_LARGE = "请求太大 The request is too large."
NO_SUCH_PAGE = "没有这个页面 There is no such page."
NO_SUCH_ANSWER = "没有这个回答，或已经读完 There is no such answer, or it has been read."
NO_JSON = "请用 application/json 提交 Send the body as application/json."
NO_OBJECT = "请求必须是一个 JSON 对象 The body must be a JSON object."
NO_FIELD = "缺少 {name}，或类型不对 {name} is missing or of the wrong type."
WRONG_COUNT = "data 应有 {expected} 个值，收到 {given} 个 data must hold {expected} values, got {given}."
NO_TEXT = "必须是文字 must be a text"
NO_NUMBER = "必须是 {low} 到 {high} 的数 must be a number from {low} to {high}"
NO_CHOICE = "必须是其中之一 must be one of: {choices}"

DEPARTMENTS = {
    "男科": "andrology",
    "内科": "internal medicine",
    "妇产科": "obstetrics and gynaecology",
    "肿瘤科": "oncology",
    "儿科": "paediatrics",
    "外科": "surgery",
}
EXAMPLES_TITLE = "例子 Examples（点一下填入问题 click to fill in）"
# Department -> questions in the manner of the sample corpus.
EXAMPLES = {
    "内科": ["我今年55岁，上个月体检发现高血压。平时要注意什么？", "女，28岁，最近查出缺铁性贫血。饮食上要注意什么？"],
    "儿科": ["孩子3岁，这几天被诊断为手足口病。什么情况下要去医院？"],
    "外科": ["痔疮有什么症状？"],
    "妇产科": ["女，32岁，上周体检查出子宫肌瘤。需要做哪些检查项目？"],
    "男科": ["男，46岁，前几天确诊良性前列腺增生，有点担心。一般用什么药？"],
    "肿瘤科": ["我父亲62岁，半个月前查出胃癌。需要做哪些检查项目？"],
    "急症 emergency": ["突然胸口压榨样疼痛，出冷汗，喘不上气，怎么办？"],
}

ABOUT_LIMITS = (
    (
        "它只从训练用的问诊里学说话，没有医学知识库，不会检查对错；写得通顺不等于写得对。",
        "It has learned how answers sound from its training consultations; it has no medical knowledge to check them "
        "against, and fluent is not right.",
    ),
    (
        "每次只看一个问题，不记得上文，也不会追问；最多读 {question} 字，最多写 {answer} 字。",
        "It sees one question at a time, remembers nothing and asks nothing back; it reads at most {question} "
        "characters and writes at most {answer}.",
    ),
    (
        "急症和自伤由固定规则识别，识别不出的也可能是急症；剂量会被隐去，用药只能听医生的。",
        "Emergencies and self-harm are recognised by fixed rules, which miss some; doses are withheld, as medicine is "
        "a doctor's to decide.",
    ),
    (
        "指标只和一份参考回答比较措辞，没有衡量医学上的对错和安全。",
        "The metrics compare wordings with one reference answer each; whether an answer is right or safe is not "
        "measured.",
    ),
)
# Key of metrics.json -> what it is, in Chinese; the English stands in [`wenzhen.evaluation.table.MEANINGS`].
MEANINGS = {
    "loss": "每个真实字的损失（奈特），越小越好",
    "perplexity": "困惑度，exp(loss)，越小越好",
    "padded_loss": "论文口径的损失：补齐到 200 字，补齐部分不计分",
    "bleu4_char": "BLEU-4，按字，整个语料，0–100",
    "bleu4_zh": "BLEU-4，按字，外文词算一个，0–100",
    "bleu4_lecture": "单句 BLEU-4 的平均，按字，不平滑，0–100",
    "bleu4_ptuning": "单句 BLEU-4 的平均，按 ChatGLM-6B P-Tuning 脚本平滑，0–100",
    "rouge1_word": "ROUGE-1，按词（jieba），0–100",
    "rouge2_word": "ROUGE-2，按词对（jieba），0–100",
    "rougeL_word": "ROUGE-L，按词（jieba），0–100",
    "rougeL_char": "ROUGE-L，按字，0–100",
    "chrf": "chrF，1 到 6 个字的片段，0–100",
    "distinct2_char": "不同的相邻两字占全部的比例，越大越多样",
    "length_ratio": "回答总字数与真实回答之比",
    "ended": "自己写完（没有写到上限）的比例",
    "repetitive": "有四字片段重复三次以上的比例，越小越好",
    "fact_recall": "真实回答里的事实，模型说出的比例",
}
FLOORS = {
    "constant": "固定一句",
    "random": "随机一条",
    "nearest_bm25": "最近邻 BM25",
    "nearest_tfidf": "最近邻 TF-IDF",
}
RECIPE = {
    "model.family": ("网络", "network"),
    "model.encoder_layers": ("编码器层数", "encoder layers"),
    "model.decoder_layers": ("解码器层数", "decoder layers"),
    "model.d_model": ("宽度", "width"),
    "model.attention_heads": ("注意力头数", "attention heads"),
    "training.num_train_epochs": ("训练轮数", "epochs"),
    "training.per_device_train_batch_size": ("批大小", "batch size"),
    "training.learning_rate": ("学习率", "learning rate"),
    "data.max_question_length": ("问题长度上限", "longest question, tokens"),
    "data.max_answer_length": ("回答长度上限", "longest answer, tokens"),
    "seed": ("随机种子", "seed"),
}

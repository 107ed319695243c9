"""What of a generated answer is shown, marked and withheld, at once and while it grows."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenzhen.answering.safety import Finding, SafetyRules

RULES = SafetyRules()
DOSE = "〔剂量须由医生决定〕"
USE = "〔用法须遵医嘱〕"
COURSE = "〔疗程须遵医嘱〕"
NO_PRESCRIPTION = "〔机器不得开具处方〕"
CHECKED = {
    "口服阿莫西林0.5g，每日三次，连用7天。": f"口服阿莫西林{DOSE}，每日三次{USE}，连用7天{COURSE}。",
    "布洛芬10mg/kg": f"布洛芬{DOSE}",
    "5～10毫克/公斤": DOSE,
    "一次2片，一日3次": f"一次{DOSE}，一日3次{USE}",
    "每次两粒，饭后": f"每次{DOSE}，饭后",
    "每次半片": f"每次{DOSE}",
    "每次１／２片": f"每次{DOSE}",
    "青霉素80万单位肌注": f"青霉素{DOSE}肌注",
    "葡萄糖500毫升静滴": f"葡萄糖{DOSE}静滴",
    "用温水冲服蒙脱石散3克": f"用温水冲服蒙脱石散{DOSE}",
    "0.25-0.5 g": DOSE,
    "０．５ｇ": DOSE,
    "头孢克肟100MG，bid": f"头孢克肟{DOSE}，bid{USE}",
    "滴眼液，每次1滴，每天4次": f"滴眼液，每次{DOSE}，每天4次{USE}",
    "中药七剂": f"中药{DOSE}",
    "莫匹罗星软膏外涂，每日2次": f"莫匹罗星软膏外涂，每日2次{USE}",
    "处方如下：阿司匹林": f"{NO_PRESCRIPTION}：阿司匹林",
    "给您开点药": NO_PRESCRIPTION,
    "盐酸二甲双胍500毫克": f"盐酸二甲双胍{DOSE}",
    "盐酸帕罗西汀25毫克": f"盐酸帕罗西汀{DOSE}",
    "氨茶碱每次50mg": f"氨茶碱每次{DOSE}",
    "鱼肝油500单位": f"鱼肝油{DOSE}",
    "奶蓟草140毫克": f"奶蓟草{DOSE}",
    "大豆异黄酮50毫克": f"大豆异黄酮{DOSE}",
    "多吃水果，服用盐酸氨溴索0.2g": f"多吃水果，服用盐酸氨溴索{DOSE}",
    "胰岛素8个单位": f"胰岛素{DOSE}",
    "打12个单位": f"打{DOSE}",
    "每次服2个": f"每次服{DOSE}",
    "口服药物，每次2个": f"口服药物，每次{DOSE}",
    "吃两个胶囊": f"吃{DOSE}",
    "用2管": f"用{DOSE}",
    "体重10公斤给100毫克": f"体重10公斤给{DOSE}",
    "每千克体重10到15毫克": f"每千克体重{DOSE}",
    "坦索罗辛0.2毫克": f"坦索罗辛{DOSE}",
    "维生素K1 1毫克": f"维生素K1 {DOSE}",
    "出生后肌注维生素K1 1毫克": f"出生后肌注维生素K1 {DOSE}",
    "阿莫西林0.5，一日三次": f"阿莫西林{DOSE}，一日三次{USE}",
    "头孢0.25 每日3次": f"头孢{DOSE} 每日3次{USE}",
    "青霉素800万": f"青霉素{DOSE}",
    "维生素D400单位": f"维生素D{DOSE}",
    "½片": DOSE,
    "每次¼片": f"每次{DOSE}",
    "壹片": DOSE,
    "贰片": DOSE,
    "伍佰毫克": DOSE,
    "叁拾毫克": DOSE,
    "千毫克": DOSE,
    "〇.五克": DOSE,
    "廿片": DOSE,
    "500 m g": DOSE,
    "五 百 毫 克": DOSE,
    "10毫 升": DOSE,
    "5\u200b00毫\u2060克": DOSE,
    "50\u00ad0mg": DOSE,
    "500m\u00adg": DOSE,
    "500㎍": DOSE,
    "500мг": DOSE,
    "٥٠٠毫克": DOSE,
    "५००mg": DOSE,
    "5公克": DOSE,
    "三钱": DOSE,
    "2 tablets": DOSE,
    "take 2 tablets daily": f"take {DOSE} daily",
    "2<b>片": DOSE,
    "2<b>片</b>": f"{DOSE}</b>",
    "每次`2`片": f"每次`{DOSE}",
    "2(片)": f"{DOSE})",
    "2（片）": f"{DOSE}）",
    "2\n片": DOSE,
    "500\n毫克": DOSE,
    "0.5\ng": DOSE,
    "**2**片": f"**{DOSE}",
    "2**片**": f"{DOSE}**",
    "零点五克": DOSE,
    "一千毫克": DOSE,
    "两 粒": DOSE,
    "每 次 2 片": f"每 次 {DOSE}",
    "阿\u200b莫西林2\u200b片": f"阿\u200b莫西林{DOSE}",
    "每次服用2个": f"每次服用{DOSE}",
}
SHOWN = [
    "每天散步30分钟",
    "每日饮水2000毫升",
    "食盐不超过5克",
    "每天盐的摄入量控制在6克以内",
    "体温38.5℃",
    "血压140/90",
    "血压120/80mmHg",
    "3天后复查",
    "每天三次温水坐浴",
    "每日刷牙两次",
    "每周运动三次，每次半小时",
    "牛奶250毫升，瘦肉100克，鸡蛋一个",
    "血糖126mg/dl，血红蛋白110g/L，CRP 10mg/L",
    "一般一周左右可以好转，一定要戒烟",
    "维生素B12片",
    "这是处方药，请在医生指导下使用",
    "胎儿体重3000克，出血量500毫升",
    "身高1.75米，体重70公斤",
    "2024年5月6日，第3天",
    "<b>1</b> & \\frac{1}{2}",
    "接种第二剂疫苗",
    "体重约3000克",
    "每次运动2个小时，俯卧撑每次20个",
    "抽一管血化验，服用2个月后复查",
    "头孢3天后复查，体温38.5",
    "每天1. 散步\n2. 早睡\n3. 少吃盐",
]
PIECES = st.sampled_from(
    [*CHECKED, *SHOWN, "，", "。", "\n", "每", "服", "一", "1", "2mg", "毫", "克", "药", "水", ",", "."]
)


@pytest.mark.parametrize(("text", "shown"), CHECKED.items())
def test_doses_are_withheld_and_uses_marked(text: str, shown: str) -> None:
    checked = RULES.check_answer(text)
    assert checked.text == shown
    assert len(checked.findings) == shown.count("〔")


@pytest.mark.parametrize("text", SHOWN)
def test_everyday_amounts_and_measurements_stay(text: str) -> None:
    checked = RULES.check_answer(text)
    assert checked.text == text
    assert checked.findings == ()


def test_findings_say_what_was_marked_and_hide_what_was_withheld() -> None:
    assert RULES.check_answer("口服药片2片，一天3次").findings == (
        Finding("dose_of_a_drug", "", "withhold"),
        Finding("frequency", "一天3次", "mark"),
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=8), st.integers(0, 2**32 - 1))
def test_a_stream_is_the_whole_however_it_is_cut(parts: list[str], seed: int) -> None:
    text, source = "".join(parts), random.Random(seed)
    cuts = sorted(source.choices(range(len(text) + 1), k=source.randint(0, 12)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(RULES.check_stream(pieces)) == RULES.check_answer(text).text


def test_no_piece_of_a_stream_shows_what_is_withheld() -> None:
    for text in CHECKED:
        whole = RULES.check_answer(text).text
        shown = ""
        for piece in RULES.check_stream(text):
            shown += piece
            # What has once been shown is never taken back.
            assert whole.startswith(shown)


def test_plain_text_flows_character_by_character() -> None:
    text = "注意休息，清淡饮食，避免劳累。如有不适请及时就医。"
    heard = 0

    def written() -> object:
        nonlocal heard
        for character in text:
            heard += 1
            yield character

    shown = 0
    waits = []
    for piece in RULES.check_stream(written()):  # type: ignore[arg-type]
        shown += len(piece)
        waits.append(heard - shown)
    # 服 begins 服用7天, 如 and the like begin nothing: at most a character waits.
    assert max(waits) <= 1
    assert len(waits) >= len(text) - 2


def test_a_number_waits_until_it_is_known_what_it_counts() -> None:
    pieces = list(RULES.check_stream("散步30分钟后休息"))
    assert "".join(pieces) == "散步30分钟后休息"
    assert pieces[0] == "散"
    assert pieces.index("30分") < len(pieces) - 1

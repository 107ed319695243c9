"""What is masked as a contact and what is not, each case as a reader of the records would judge it."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenzhen.corpus.contacts import CONTACTS, mask_contacts, may_hold_contacts

MASKS = {"email": "[邮箱]", "link": "[链接]", "wechat": "[微信]", "qq": "[QQ]", "telephone": "[电话]"}

# A text and what must become of it.
CONTACT_CASES = [
    # Mobile numbers.
    ("门诊时间请拨13800138000。", "门诊时间请拨[电话]。"),
    ("请打１３８００１３８０００预约", "请打[电话]预约"),
    ("预约：138-0013-8000，周一至周五", "预约：[电话]，周一至周五"),
    ("预约138 0013 8000找李护士", "预约[电话]找李护士"),
    ("预约138.0013.8000", "预约[电话]"),
    ("预约138－0013－8000", "预约[电话]"),
    ("预约138—0013—8000", "预约[电话]"),
    ("预约138 - 0013 - 8000", "预约[电话]"),
    ("预约138\u30000013\u30008000", "预约[电话]"),
    ("预约13800 138000", "预约[电话]"),
    ("我的号是19912345678，盼回复", "我的号是[电话]，盼回复"),
    ("（16612345678）", "（[电话]）"),
    ("“17012345678”是家属的", "“[电话]”是家属的"),
    ("家属15912345678/15812345678", "家属[电话]/[电话]"),
    ("13912345678、13712345678", "[电话]、[电话]"),
    ("15012345678万医生", "[电话]万医生"),
    ("1.13800138000 2.13900139000", "1.[电话] 2.[电话]"),
    ("护士站：18612345678或者18712345678都行", "护士站：[电话]或者[电话]都行"),
    ("预约138_0013_8000", "预约[电话]"),
    ("预约138/0013/8000", "预约[电话]"),
    ("预约138·0013·8000", "预约[电话]"),
    ("预约138-001-38000", "预约[电话]"),
    # Words behind a number that begin as units do.
    ("我的电话13800138000年龄45岁", "我的电话[电话]年龄45岁"),
    ("手机：13800138000单位：纺织厂", "手机：[电话]单位：纺织厂"),
    ("电话13800138000元旦后联系", "电话[电话]元旦后联系"),
    ("电话62345678元旦后联系", "电话[电话]元旦后联系"),
    ("手机13800138000个", "手机[电话]个"),
    ("13800138000克明", "[电话]克明"),
    ("13800138000 l老师", "[电话] l老师"),
    # With the country's code.
    ("+8613800138000", "[电话]"),
    ("国外请拨+86 138 0013 8000", "国外请拨[电话]"),
    ("国外请拨+86-138-0013-8000。", "国外请拨[电话]。"),
    ("国外请拨0086-13800138000", "国外请拨[电话]"),
    ("国外请拨8613800138000", "国外请拨[电话]"),
    ("国外请拨+86-10-62345678", "国外请拨[电话]"),
    ("国外请拨+86 755 2345 6789", "国外请拨[电话]"),
    # Landlines.
    ("医院总机010-62345678。", "医院总机[电话]。"),
    ("医院总机0755-23456789转外科", "医院总机[电话]转外科"),
    ("医院总机(021)62345678", "医院总机[电话]"),
    ("医院总机（0571）8765 4321", "医院总机[电话]"),
    ("医院总机0755——2345678", "医院总机[电话]"),
    ("医院总机02062345678", "医院总机[电话]"),
    ("医院总机０１０－６２３４５６７８", "医院总机[电话]"),
    ("医院总机0335 7654321", "医院总机[电话]"),
    ("医院总机0571/87654321", "医院总机[电话]"),
    # Service numbers.
    ("免费咨询400-123-4567", "免费咨询[电话]"),
    ("免费咨询4001234567", "免费咨询[电话]"),
    ("免费咨询400 1234 567", "免费咨询[电话]"),
    ("免费咨询4008-123-123", "免费咨询[电话]"),
    ("免费咨询800-820-8820", "免费咨询[电话]"),
    # Numbers that only their label tells.
    ("电话：62345678", "电话：[电话]"),
    ("联系电话6234-5678，找张大夫", "联系电话[电话]，找张大夫"),
    ("电话号码是 7654321", "电话号码是 [电话]"),
    ("值班手机:13800138000", "值班手机:[电话]"),
    ("TEL: 62345678", "TEL: [电话]"),
    ("传真（010）62345678", "传真[电话]"),
    ("联系方式：62345678", "联系方式：[电话]"),
    ("健康热线 62345678。", "健康热线 [电话]。"),
    ("电话：010-62345678、010-62345679", "电话：[电话]、[电话]"),
    ("电话:62345678、62345679或62345670", "电话:[电话]、[电话]或[电话]"),
    ("电话（62345678）", "电话（[电话]）"),
    # WeChat.
    ("加我微信zhangyisheng88", "加我微信[微信]"),
    ("微信：li_daifu-01，备注胃病", "微信：[微信]，备注胃病"),
    ("微信号 wxid_ab12cd34", "微信号 [微信]"),
    ("微信号是13800138000", "微信号是[微信]"),
    ("微信公众号：jiankang2020。", "微信公众号：[微信]。"),
    ("威信 doctor_wang", "威信 [微信]"),
    ("薇信：lisi666888", "薇信：[微信]"),
    ("vx:zhang12345", "vx:[微信]"),
    ("VX：zhang12345；", "VX：[微信]；"),
    ("V信zhang12345", "V信[微信]"),
    ("wx：zhang12345", "wx：[微信]"),
    ("请加V：zhang12345", "请加V：[微信]"),
    ("加微zhang12345", "加微[微信]"),
    ("WeChat: zhang12345", "WeChat: [微信]"),
    ("微信ID：zhang12345", "微信ID：[微信]"),
    ("微信（zhang12345）发片子", "微信（[微信]）发片子"),
    ("微信“zhang12345”", "微信“[微信]”"),
    ("微信654321", "微信[微信]"),
    ("微信abc123", "微信[微信]"),
    ("薇：zhang12345", "薇：[微信]"),
    ("卫信zhang12345", "卫信[微信]"),
    ("wechat-zhang12345", "wechat-[微信]"),
    ("weixin.zhang12345", "weixin.[微信]"),
    ("加WX12345678", "加WX[微信]"),
    # QQ.
    ("QQ:123456789", "QQ:[QQ]"),
    ("qq 12345678，在线", "qq [QQ]，在线"),
    ("我的QQ号是1234567890。", "我的QQ号是[QQ]。"),
    ("病友QQ群：123456789", "病友QQ群：[QQ]"),
    ("ＱＱ１２３４５６７８９", "ＱＱ[QQ]"),
    ("扣扣12345678", "扣扣[QQ]"),
    ("QQ（123456789）", "QQ（[QQ]）"),
    ("加Q：123456789", "加Q：[QQ]"),
    ("QQ号码：10001", "QQ号码：[QQ]"),
    ("QQ：12345678/23456789", "QQ：[QQ]/[QQ]"),
    ("Q:1234567", "Q:[QQ]"),
    ("Q Q：1234567", "Q Q：[QQ]"),
    ("企鹅号123456789", "企鹅号[QQ]"),
    ("QQ：12345、23456、34567，在线", "QQ：[QQ]、[QQ]、[QQ]，在线"),
    # Links.
    ("见https://example.com/a?b=1&c=2。", "见[链接]。"),
    ("见http://192.168.1.1:8080/index，谢谢", "见[链接]，谢谢"),
    ("网址www.example.com", "网址[链接]"),
    ("网址WWW.EXAMPLE.COM/ABC", "网址[链接]"),
    ("请看 bbs.example.com.cn/t/1.html 里的说明", "请看 [链接] 里的说明"),
    ("（http://example.com/x）", "（[链接]）"),
    ("(http://example.com/x), 谢谢", "([链接]), 谢谢"),
    ("看http://example.com/x看病", "看[链接]看病"),
    ("ftp://example.com/ct.zip是片子", "[链接]是片子"),
    ("example.cn上有介绍", "[链接]上有介绍"),
    ("www.example.me有介绍", "[链接]有介绍"),
    ("t.cn/Rab12有介绍", "[链接]有介绍"),
    ("t.me/jiankang", "[链接]"),
    ("见ｗｗｗ．ｅｘａｍｐｌｅ．ｃｏｍ。", "见[链接]。"),
    # E-mail.
    ("发到zhang.san@example.com", "发到[邮箱]"),
    ("邮箱：12345@qq.com，谢谢", "邮箱：[邮箱]，谢谢"),
    ("邮箱li_si+ct@mail.example.com.cn。", "邮箱[邮箱]。"),
    ("邮箱ls@163.com或ls@126.com", "邮箱[邮箱]或[邮箱]"),
    ("邮箱ls＠163.com", "邮箱[邮箱]"),
    ("邮箱ls@qq。com", "邮箱[邮箱]"),
    # Several at once.
    ("电话13800138000，微信同号，QQ12345678，邮箱a@b.com", "电话[电话]，微信同号，QQ[QQ]，邮箱[邮箱]"),
    ("微信zhang12345电话62345678", "微信[微信]电话[电话]"),
    ("13800138000（微信同号）", "[电话]（微信同号）"),
    ("电话/微信：13800138000", "电话/微信：[微信]"),
    ("www.example.com，400-123-4567", "[链接]，[电话]"),
    ("王医生13800138000,QQ123456789;详见http://example.com/", "王医生[电话],QQ[QQ];详见[链接]"),
    ("病友群QQ123456789，群主13912345678，也可发a_b@example.com", "病友群QQ[QQ]，群主[电话]，也可发[邮箱]"),
]

PLAIN_TEXTS = [
    # Doses and drugs.
    "阿莫西林500mg每日三次",
    "每次0.25g，一日2次",
    "头孢克肟100mg，bid，连服7天",
    "青霉素800000单位静滴",
    "青霉素8000000单位，皮试阴性",
    "维生素D 400IU每日一次，钙片600毫克",
    "糜蛋白酶4000U雾化",
    "5%葡萄糖500ml+维生素C 2.0g",
    "可加Vitamin B12口服",
    "加Vitaminb12片两周",
    "加VitaminC泡腾片",
    "复方丹参滴丸27mg*180丸",
    "批准文号国药准字H20013456",
    "国药准字Z10900012，生产批号20190612",
    "吲哚美辛25mg/次，最大150mg/日",
    "奥美拉唑20mg 1-2次/日",
    "每晚阿托伐他汀10-20mg",
    "疗程150 2000 3000IU各一周",
    "甲钴胺500μg tid",
    "胰岛素早12晚10单位",
    "菌落18900000000CFU/ml",
    "红细胞 13512345678个",
    "住院号：0012345678",
    "试剂WX12345678",
    "B.cc与x.cn",
    # Dates, times, ages.
    "末次月经2019-06-12，预产期2020-03-19",
    "2019/06/12至2019/07/01住院",
    "2019年6月12日手术",
    "20190612做的B超",
    "2019-06-12 08:30:15复查",
    "2019-06-12T08:30:15",
    "2019.06.12-2019.07.01",
    "早上8:00-12:00，下午14:30-17:30出诊",
    "患者35岁，孕3产1",
    "小孩2岁11个月",
    "2018-2019年复发三次",
    "1985年出生，2003年确诊",
    "发病时间1530小时",
    # Measurements.
    "血压120/80mmHg",
    "血压从180/110降到135/85",
    "心率72次/分，呼吸18次/分",
    "体温38.5，昨晚39.2",
    "血糖空腹6.1，餐后11.1",
    "白细胞12.5×10^9/L，血小板150×10^9/L",
    "精子15000000/ml，活力35%",
    "精子13800000000/L",
    "HCG 12345.67，孕酮23.45",
    "HCG 13512 mIU/ml",
    "HBV-DNA 13512345678 IU/ml",
    "病毒载量1.35e+08",
    "甲胎蛋白400.5ng/ml",
    "肌酐133umol/L，尿酸480",
    "谷丙400、谷草800、转肽酶1234",
    "结节4.0x3.2x1000mm",
    "孕囊35*28*19",
    "右肺结节0.5-0.8cm",
    "子宫65×58×49毫米",
    "ALT 135 AST 1234 GGT 80",
    "视力0.1，矫正0.8",
    "血小板150\n2000\n3000",
    "0.13800138000",
    "骨密度T值-2.5",
    # Numbers everybody may call, and short ones.
    "立即拨打120",
    "请拨120急救电话或到急诊",
    "拨打急救电话120，2小时内送医",
    "心理援助热线12356，24小时",
    "卫生热线12320",
    "报警110，火警119",
    "邮编10008",
    "编号12345的病人",
    "住院号654321",
    "病历62345678号",
    "手机2019-2020年常看到深夜",
    "摔坏了手机1000-2000元的事很烦",
    "每日热量400-800-1200千卡",
    "客服专线10086",
    "电话随访3个月",
    "电话2019-06-12打过",
    # Words that only look like an address.
    "做CT、MRI、PET-CT",
    "HPV16、HPV52阳性",
    "微信咨询不能代替面诊",
    "微信abc12的群",
    "QQ1234567890123",
    "编号138001380001",
    "微信里发的照片看不清",
    "加微量元素100mg",
    "QQ糖每天吃10颗",
    "qq聊天到凌晨2点",
    "CYP2C19*2/*3型",
    "E.coli感染，H.pylori阳性",
    "EB病毒IgM、IgG",
    "VX-765尚在试验",
    "TNM分期T2N1M0",
    "α-2b干扰素300万单位",
    "用药后@我",
    "比例1:1000000",
    "身份证110101199003071234",
    "ICD编码J18.900",
    "血型Rh(-)",
    "打电话给医生，或发邮件",
    "看了电视后头痛",
]


@pytest.mark.parametrize(("text", "expected"), CONTACT_CASES)
def test_contacts_are_masked_and_counted(text, expected):
    masked = Counter()
    assert mask_contacts(text, masked) == expected
    assert +masked == Counter(
        {kind: count for kind, mask in MASKS.items() if (count := expected.count(mask) - text.count(mask))}
    )
    assert may_hold_contacts(text)


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_other_texts_stay_as_they_are(text):
    masked = Counter()
    assert mask_contacts(text, masked) == text
    assert not +masked


def test_the_tables_are_as_large_as_they_should_be_and_hold_every_kind():
    assert len(set(CONTACT_CASES)) == len(CONTACT_CASES) >= 60
    assert len(set(PLAIN_TEXTS)) == len(PLAIN_TEXTS) >= 60
    assert set(CONTACTS) == set(MASKS)
    assert all(any(mask in expected for _, expected in CONTACT_CASES) for mask in MASKS.values())


@pytest.mark.parametrize(("before", "after"), ["，。", "（）", "：；", "“”", "、！", "？\n", "【】", "《》", ".,"])
@pytest.mark.parametrize(
    ("contact", "mask"),
    [
        ("13800138000", "[电话]"),
        ("010-62345678", "[电话]"),
        ("400-123-4567", "[电话]"),
        ("zhang@example.com", "[邮箱]"),
        ("http://example.com/a", "[链接]"),
        ("www.example.com", "[链接]"),
    ],
)
def test_punctuation_around_a_contact_stays(before, after, contact, mask):
    assert mask_contacts(f"头痛{before}{contact}{after}发热", Counter()) == f"头痛{before}{mask}{after}发热"


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_a_contact_beside_a_plain_text_is_masked_alone(text):
    assert mask_contacts(f"{text}。致电13800138000。{text}", Counter()) == f"{text}。致电[电话]。{text}"


def test_counts_add_up_over_texts():
    masked = Counter()
    for text, _ in CONTACT_CASES:
        mask_contacts(text, masked)
    expected = Counter()
    for _, result in CONTACT_CASES:
        expected += Counter({kind: result.count(mask) for kind, mask in MASKS.items()})
    assert masked == expected


# What contacts are made of, and what may stand around them.
PARTS = [
    *"0135 -—.@/:：，。、Vvx加微Ｑ１０",
    *["微信", "QQ", "电话", "138", "0013", "8000", "010", "400", "www.", ".com", "abc123"],
]
ANY_TEXT = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)
FULL_TEXT = st.lists(
    st.sampled_from(["，", "138-0013-8000", "头痛", "微信：zhang12345", "QQ：12345678"]), max_size=12
).map("请问".join)


@settings(deadline=None)
@given(text=ANY_TEXT)
def test_masking_twice_changes_nothing_more(text):
    once = mask_contacts(text, Counter())
    assert mask_contacts(once, Counter()) == once


@settings(deadline=None)
@given(text=ANY_TEXT)
def test_a_text_without_a_hint_holds_no_contact(text):
    assert may_hold_contacts(text) or mask_contacts(text, Counter()) == text


@settings(deadline=None)
@given(text=FULL_TEXT)
def test_every_contact_of_a_text_is_found(text):
    masked = Counter()
    result = mask_contacts(text, masked)
    assert masked["telephone"] == text.count("138-0013-8000")
    assert masked["wechat"] == text.count("zhang12345")
    assert masked["qq"] == text.count("12345678")
    assert re.sub(r"\[(?:电话|微信|QQ)\]", "", result) == re.sub(r"138-0013-8000|zhang12345|12345678", "", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a." * 20_000, "a." * 20_000),
        ("1-" * 20_000, "1-" * 20_000),
        ("a.@" * 10_000, "a.@" * 10_000),
        ("QQ：12345" + "、12345" * 10_000, "QQ：[QQ]" + "、[QQ]" * 10_000),
        ("电话：1234567" + "、1234567" * 10_000, "电话：[电话]" + "、[电话]" * 10_000),
    ],
    ids=lambda text: text[:12],
)
def test_a_long_text_takes_no_longer_than_its_length(text, expected):
    # These would take minutes if a search went over the rest of the text from each of its places.
    assert mask_contacts(text, Counter()) == expected

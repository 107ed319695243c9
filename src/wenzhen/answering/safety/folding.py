"""Texts as the rules read them: one spelling for what patients write in many.

Folding is for matching alone: nothing that is shown or generated passes through it.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

SENTENCE, CLAUSE, LIST, SOFT = "。", "，", "、", " "
# The first that stands in a run of separators is the one that counts.
_STRONGEST = (SENTENCE, CLAUSE, LIST, SOFT)
_SEPARATORS = dict.fromkeys("。!?", SENTENCE) | dict.fromkeys(",;\n…", CLAUSE) | {"、": LIST}
# Characters of the rules' words in traditional writing, each with the simplified one behind it.
_PAIRS = (
    "氣气癥症狀状頭头暈晕嘔呕噁恶腦脑發发燒烧熱热癲癫癇痫驚惊體体無无沒没還还會会為为這这個个來来時时間间現现"
    "開开關关見见覺觉說说話话語语癱瘫瘓痪側侧臉脸視视線线雙双壓压潰溃瘍疡腸肠闌阑臟脏膽胆傷伤斷断頸颈墜坠車车"
    "禍祸擊击電电觸触燙烫蟲虫貓猫過过腫肿嚨咙嗆呛異异魚鱼藥药農农劑剂醫医誤误飲饮錯错兒儿嬰婴產产婦妇動动懷怀"
    "週周歲岁兩两幾几難难痠酸劇剧絞绞樣样紅红綠绿髮发煙烟霧雾輕轻殺杀樓楼結结離离遺遗書书殘残劃划靜静脈脉絕绝"
    "應应從从後后當当剛刚纔才經经歷历長长總总並并與与於于邊边麼么嗎吗讓让給给對对錢钱萬万處处顆颗緊紧張张悶闷"
    "濕湿蒼苍顫颤軟软鬆松識识亂乱幹干脫脱渾浑濁浊鮮鲜嚴严脹胀轉转繼继續续緩缓減减勁劲鬧闹鬱郁願愿寫写聽听聞闻"
    "門门爐炉鍋锅點点滿满養养餵喂聲声鈕纽釦扣釘钉針针夾夹進进陰阴睪睾種种類类貧贫標标準准備备檢检測测試试護护"
    "導导預预別别區区遲迟鈍钝媽妈爺爷孫孙飯饭鐘钟睏困閉闭盡尽輸输認认題题係系請请問问號号搶抢喚唤滅灭潔洁廁厕"
    "靈灵氫氢鹼碱鈉钠強强濃浓縮缩塊块著着裡里裏里隻只嚥咽癢痒瀉泻麵面敗败膚肤腳脚噴喷牠它溫温濺溅儘尽遠远隨随"
    "齦龈驗验髒脏鬍胡償偿褲裤頻频顏颜黃黄業业東东絲丝喪丧豐丰臨临舉举義义烏乌樂乐習习亞亚僅仅侖仑價价夥伙傳传"
    "姪侄涼凉淨净剎刹剝剥辦办單单臥卧衛卫厲厉變变葉叶啞哑嘩哗團团園园國国圖图堅坚墊垫殼壳壺壶復复複复夠够奧奥"
    "實实寶宝宮宫尋寻爾尔島岛師师簾帘帶带彎弯彈弹徹彻徵征憶忆懼惧懸悬紮扎撲扑擔担掛挂換换撈捞攝摄搖摇敵敌數数"
    "顯显曬晒暫暂術术機机雜杂條条棗枣槍枪橋桥慾欲湯汤淚泪潑泼漿浆澆浇塗涂滌涤滾滚灘滩潛潜瀕濒爛烂煩烦愛爱豬猪"
    "獻献環环暢畅療疗瘡疮瘋疯盤盘鹽盐瞼睑確确礙碍積积穩稳窩窝筆笔篩筛糞粪糧粮纖纤級级紋纹紺绀練练細细維维綿绵"
    "緣缘網网羅罗膠胶臍脐膿脓膩腻蘇苏蘋苹蝦虾蟄蛰補补觀观規规訓训記记講讲論论設设診诊詞词誘诱諾诺課课調调貝贝"
    "質质貼贴貸贷費费賠赔賴赖軋轧軌轨運运適适醬酱釋释鑒鉴鋼钢鑰钥鉤钩鐵铁銀银鏽锈鎮镇鏡镜閃闪閨闺陽阳陣阵際际"
    "險险隱隐黴霉順顺須须顧顾頓顿風风飽饱饅馒馬马驟骤鯊鲨雞鸡鴨鸭麥麦齡龄龍龙齒齿蕁荨乾干沖冲衝冲凍冻決决況况"
    "牀床脣唇弔吊昇升痲麻"
)
# Characters of Cantonese, each with what stands in its place in the rules' words behind it.
_CANTONESE = "咗了唔不佢他冇没嘅的喺在啲些嗰那嚟来睇看嘢事咁这喇了攰累瞓睡"
TRADITIONAL = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True)) | dict(
    zip(_CANTONESE[::2], _CANTONESE[1::2], strict=True)
)
# Letters that nobody sees: the fillers of Korean writing.
_FILLERS = "\u115f\u1160\u3164\uffa0"
_NOT_A_POINT = re.compile(r"(?<!\d)\.|\.(?!\d)")
# Signs of which a syllable is written in Latin letters beside Chinese characters: xiong口疼.
_SYLLABLES = {
    **{"xiong": "胸", "chuan": "喘", "teng": "疼", "tong": "痛", "tou": "头", "yun": "晕", "tu": "吐", "xue": "血"},
    **{"zui": "嘴", "wai": "歪", "chou": "抽", "si": "死", "sha": "杀", "huo": "活", "xin": "心", "qi": "气"},
    **{"zi": "自", "tiao": "跳", "lou": "楼", "fashao": "发烧", "liu": "流", "chu": "出", "nong": "农", "zhong": "中"},
}
_SYLLABLE = re.compile("|".join(sorted(_SYLLABLES, key=len, reverse=True)))
_HAN = "[\u4e00-\u9fff]"
_IN_LATIN = f"(?:{_SYLLABLE.pattern})+"
_HALF_LATIN = re.compile(rf"(?<={_HAN}) ?{_IN_LATIN}(?![a-z])|(?<![a-z]){_IN_LATIN} ?(?={_HAN})")
_RUN = re.compile(r"[。，、 ]{2,}")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_OR = re.compile(f"(?<={_HAN}) ?[/／|] ?(?={_HAN})")
_BROKEN = re.compile(rf"(?<={_HAN})\s*\n\s*(?={_HAN})")
_SINGLE = re.compile(f"(?<!{_HAN}){_HAN}(?!{_HAN})")
_DOUBLED = re.compile(f"({_HAN})\\1")
# A single Chinese character between separators belongs to a word that somebody spelled out: 胸 痛, 胸、痛, 自，杀.
_ALONE = r"(?![无没不有是否])[\u4e00-\u9fff]"
_SPELLED = [
    re.compile(rf"(?:(?<=[。，、 ]{_ALONE})|(?<=^{_ALONE}))[{weak}]|[{weak}](?={_ALONE}(?:[。，、 ]|$))")
    for weak in (SOFT + LIST, CLAUSE)
]


class _Table(dict[int, str]):
    """What each character is folded to, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character == "℃":
            folded = "度"
        elif character in _SEPARATORS:
            folded = _SEPARATORS[character]
        else:
            folded = "".join(map(_fold, unicodedata.normalize("NFKC", character).lower()))
        self[code] = folded
        return folded


def _fold(character: str) -> str:
    """Fold one character that is already in its compatible, lower-case form."""
    if character in _SEPARATORS:
        return _SEPARATORS[character]
    category = unicodedata.category(character)
    if character in _FILLERS:
        return ""
    if category != "Lm" and (category[0] in "LN" or character == "."):
        return TRADITIONAL.get(character, character)
    # Marks that combine with the character before, and formats that nobody sees; all the rest stands between words.
    return "" if character in "'’" or category in ("Mn", "Me", "Cf") else SOFT


_TABLE = _Table()


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as the rules read it.

    Attributes:
        text: what words are looked for in: sentences end with 。 and clauses with ， and words are not divided, but
            for a space between two of Latin letters or digits.
        full: the same with 、 between the items of a list, and a space where anything else stood between words.
        positions: of each character of `text` in `full`, and `full`'s length at the end.
    """

    text: str
    full: str
    positions: list[int]

    def around(self, start: int, end: int, reach: int) -> tuple[str, str, str]:
        """Return what stands in `full` before a piece of `text`, in its place, and behind it.

        Args:
            start: where the piece begins in `text`.
            end: where it ends.
            reach: characters before and behind at most.
        """
        first, last = self.positions[start], self.positions[end - 1] + 1 if end > start else self.positions[start]
        return self.full[max(0, first - reach) : first], self.full[first:last], self.full[last : last + reach]


def readings(text: str) -> Iterator[Folded]:
    """Yield a text folded as it stands, then as it may be meant: words broken by lines, spelled out, or doubled."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub("\n", text)
    yield fold(text)
    if "\n" in text:
        yield fold(_BROKEN.sub("", text))
    characters = "".join(re.findall(_HAN, text))
    if len(characters) < 4:
        return
    if len(_SINGLE.findall(text)) >= 0.8 * len(characters):
        yield fold(characters)
    if 2 * len(_DOUBLED.findall(characters)) >= 0.9 * len(characters):
        yield fold(_DOUBLED.sub(r"\1", characters))


def fold(text: str) -> Folded:
    """Fold a text: compatible forms, lower case, simplified characters, separators of four strengths."""
    text = _OR.sub(LIST, text)
    full = _NOT_A_POINT.sub(SOFT, text.translate(_TABLE))
    full = _RUN.sub(lambda run: min(run[0], key=_STRONGEST.index), full).strip(SOFT)
    for spelled in _SPELLED:
        full = spelled.sub("", full)
    full = _HALF_LATIN.sub(lambda found: _SYLLABLE.sub(lambda one: _SYLLABLES[one[0]], found[0].strip()), full)
    positions = [i for i in range(len(full)) if not (full[i] in "、 " and not _divides(full, i))]
    return Folded("".join(full[i] for i in positions), full, [*positions, len(full)])


def _divides(full: str, index: int) -> bool:
    """Tell whether a space divides two words of Latin letters or digits."""
    return 0 < index < len(full) - 1 and full[index - 1].isascii() and full[index + 1].isascii()

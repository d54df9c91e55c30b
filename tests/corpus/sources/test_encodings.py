"""The encoding of a text is given, or detected; a detected encoding fits every byte."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.sources.encodings import BadEncodingError, decode, detect_encoding

RUSSIAN = "Был тихий вечер, и солнце уже садилось за лесом. Старик сидел у окна и смотрел на дорогу.\n" * 7


def read(raw: bytes) -> str:
    return decode(raw, detect_encoding(raw))


# language and encodings in which such texts lie on people's disks -> story
STORIES = {
    "ru cp1251 koi8-r cp866 iso8859-5 mac-cyrillic": "Старая мать сидела у окна и ждала письма. За рекой уже зажгли "
    "огни, снег шёл всё гуще, и дорогу замело. Он приедет весной, сказала она тихо и поставила чайник на плиту.",
    "uk cp1251 koi8-u cp1125": "Стара мати сиділа біля вікна й чекала листа. За річкою вже засвітили вогні, сніг ішов "
    "дедалі густіше. Він приїде навесні, сказала вона тихо,",
    "sr cp1251 cp855": "Стара мајка је седела поред прозора и чекала писмо. Преко реке су већ горела светла, снег је "
    "падао све гушће и пут је нестао. Доћи ће у пролеће,",
    "de cp1252": "Die alte Mutter saß am Fenster und wartete auf einen Brief. Jenseits des Flusses "
    "brannten schon die Lichter, der Schnee fiel immer dichter,",
    "fr cp1252 iso8859-15 mac-roman cp850": "La vieille mère était assise près de la fenêtre et attendait une lettre. "
    "De l'autre côté de la rivière, les feux étaient déjà allumés,",
    "nb cp1252 cp865": "Den gamle moren satt ved vinduet og ventet på et brev. På den andre siden av elven var lysene "
    "allerede tent, snøen falt tettere og tettere,",
    "pl cp1250 iso8859-2 cp852": "Stara matka siedziała przy oknie i czekała na list. Za rzeką płonęły już światła, "
    "śnieg padał coraz gęściej, a drogę zasypało. Przyjedzie wiosną,",
    "el cp1253 iso8859-7 cp737": "Η γριά μητέρα καθόταν στο παράθυρο και περίμενε ένα γράμμα. Πέρα από το ποτάμι "
    "έκαιγαν ήδη τα φώτα, το χιόνι έπεφτε όλο και πιο πυκνό και ο δρόμος χάθηκε.",
    "tr cp1254": "Yaşlı anne pencerenin önünde oturuyor ve bir mektup bekliyordu. Nehrin ötesinde ışıklar yanmıştı, "
    "kar gittikçe sıklaşıyor, yol görünmez oluyordu.",
    "he cp1255 cp862": "האם הזקנה ישבה ליד החלון וחיכתה למכתב. מעבר לנהר כבר דלקו האורות, השלג ירד בצפיפות הולכת "
    "וגוברת והדרך נעלמה. הוא יבוא באביב, אמרה בשקט ושמה את הקומקום על האש.",
    "ar cp1256": "جلست الأم العجوز قرب النافذة تنتظر رسالة. وراء النهر كانت الأضواء قد اشتعلت، والثلج يتساقط بكثافة "
    "متزايدة حتى اختفى الطريق. قالت بصوت خافت إنه سيأتي في الربيع، ثم وضعت الشاي على النار وسألت البنت أين تنام الشمس.",
    "lt cp1257": "Sena motina sėdėjo prie lango ir laukė laiško. Už upės jau degė žiburiai, sniegas krito vis "
    "tankiau, ir kelias dingo. Jis atvažiuos pavasarį,",
    "vi cp1258": "Bà mẹ già ngồi bên cửa sổ và chờ một lá thư. Bên kia sông đèn đã sáng, tuyết rơi ngày càng dày và "
    "con đường biến mất. Mùa xuân nó sẽ về,",
    "th cp874": "แม่เฒ่านั่งอยู่ข้างหน้าต่างและรอจดหมาย ฝั่งตรงข้ามแม่น้ำมีแสงไฟแล้ว หิมะตกหนักขึ้นเรื่อย ๆ จนมองไม่เห็นทาง เขาจะมาในฤดูใบไม้ผลิ "
    "แม่พูดเบา ๆ แล้ววางกาน้ำบนเตา เด็กหญิงถามว่ากลางคืนพระอาทิตย์นอนที่ไหน",
    "zh_Hans gb18030": "年老的母亲坐在窗边等一封信。河对岸的灯已经亮了，雪越下越密，路也看不见了。他春天会来的，她轻声"
    "说，把水壶放在炉子上。女孩问太阳晚上睡在哪里。睡在山后面，祖父说，明天还会起来。",
    "zh_Hant big5": "年老的母親坐在窗邊等一封信。河對岸的燈已經亮了，雪越下越密，路也看不見了。他春天會來的，她輕聲說"
    "，把水壺放在爐子上。女孩問太陽晚上睡在哪裡。睡在山後面，祖父說，明天還會起來。",
    "ja shift-jis euc-jp": "年老いた母は窓辺に座って手紙を待っていた。川の向こうにはもう灯がともり、雪はますます激しく"
    "なって、道は見えなくなった。春には帰ってくるよ、と母は静かに言って、やかんを火にかけた。",
    "ko euc-kr": "늙은 어머니는 창가에 앉아 편지를 기다렸다. 강 건너에는 벌써 불이 켜졌고 눈은 점점 더 많이 내려 길이 "
    "보이지 않았다. 봄에는 올 거야, 어머니는 조용히 말하고 주전자를 불 위에 올려놓았다.",
}
TONES = "\u0300\u0301\u0303\u0309\u0323"
PAIRS = [(key.partition(" ")[0], encoding) for key in STORIES for encoding in key.split()[1:]]
STORY = {key.partition(" ")[0]: story for key, story in STORIES.items()}


def encoded(text: str, encoding: str) -> bytes:
    """Encode a text; in cp1258 the marks of Vietnamese tones are characters of their own."""
    if encoding == "cp1258":
        text = "".join(map(_tone_last, text))
    return text.encode(encoding)


def _tone_last(char: str) -> str:
    parts = unicodedata.normalize("NFD", char)
    tone = "".join(part for part in parts if part in TONES)
    return unicodedata.normalize("NFC", "".join(part for part in parts if part not in TONES)) + tone


@pytest.mark.parametrize(("language", "encoding"), PAIRS)
def test_a_text_of_three_sentences_is_read_right_in_each_encoding(language, encoding) -> None:
    raw = encoded(STORY[language], encoding)
    assert read(raw) == raw.decode(encoding)


def test_a_text_that_is_ascii_but_for_some_late_words_or_begins_like_a_picture_is_read_right() -> None:
    late = "Plain words, and nothing else, for a long while.\n" * 7001 + "Frau Müller und die Bäckerin hören zu.\n"
    assert detect_encoding(late.encode("cp1252")) == "cp1252"
    single_line = late.replace("\n", " ")
    for text in (single_line, *(f"{start}: {STORY['de']}" for start in ("BMW", "MZ", "ID3", "OggS"))):
        assert read(text.encode("cp1252")) == text


def test_the_most_probable_encoding_in_which_all_bytes_are_valid_is_taken() -> None:
    raw = (STORY["de"] * 400).encode("cp1252")  # more than chardet sees
    assert detect_encoding(raw) == "cp1252"
    assert detect_encoding(raw + b"\x81") == "iso8859-15"  # no character of cp1252


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "utf-8"])
def test_a_byte_order_mark_decides_and_is_removed(encoding) -> None:
    mark = "" if encoding == "utf-32" else "\ufeff"
    assert read(f"{mark}x𝄞ж".encode(encoding)) == "x𝄞ж"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("iso2022-jp", "彼は海を見た。\nABC"), ("iso2022-kr", "그는 바다를 보았다."), ("hz", "他看着大海。~ OK")],
)
def test_a_text_in_an_encoding_of_ascii_bytes_is_read_right(encoding, text) -> None:
    assert text.encode(encoding).isascii()
    late = b"<meta charset=utf-8>" * 100_003 + text.encode(encoding)
    assert detect_encoding(late) == encoding
    assert read(text.encode(encoding)) == text


def test_a_text_that_has_signs_of_such_an_encoding_and_is_invalid_in_it_is_utf8() -> None:
    terminal_and_tex = ["\x1b[31mred\x1b[0m", "\\bar~{x}~\\cite{y}", "cost\x1b$5", "~{", "ж \x1b$B"]
    plus = "+380-44-123", "+420-1", "a+bcd-e", "1 + 1", "C++-x", "+7123-456", "x+foo-bar+1", "+foo-bar", "ж+BB4-"
    for text in (*terminal_and_tex, *plus):
        assert (detect_encoding(text.encode()), read(text.encode())) == ("utf-8", text)


@pytest.mark.parametrize("text", ["Привет, мир.", "für + wider", "日本", f"{'x' * (2**20 - 3)}日本"])
def test_utf7_is_an_error_and_not_ascii(text) -> None:
    with pytest.raises(BadEncodingError, match="looks like UTF-7"):
        detect_encoding(text.encode("utf-7"))
    assert decode(text.encode("utf-7"), "utf-8") == text.encode("utf-7").decode()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1b~+")))
def test_all_utf8_without_switches_is_read_as_utf8(text) -> None:
    assert decode(text.encode(), "utf-8") == text.removeprefix("\ufeff")
    assert detect_encoding(b"x" + text.encode()) == "utf-8"


def test_what_a_page_declares_is_believed_before_a_guess_if_it_can_be_true() -> None:
    assert detect_encoding("<html><meta charset=koi8-r><p>Ёж".encode("koi8-r")) == "koi8-r"
    assert detect_encoding("<?xml version='1.0' encoding='windows-1251'?><p>Ёж".encode("cp1251")) == "cp1251"
    for name, superset in {"iso-8859-1": "cp1252", "iso-8859-9": "cp1254", "shift_jis": "cp932"}.items():
        assert detect_encoding(f"<meta charset={name}><p>“ÿ”, ﾃｽﾄ".encode(superset, "ignore")) == superset
    for name in ("utf-8", "no-such", "rot13", "idna"):
        assert detect_encoding(f"<meta charset={name}>".encode() + RUSSIAN.encode("cp1251")) == "cp1251"


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xd0"], ids=["no byte of UTF-8", "surrogate", "half"])
def test_utf8_with_a_damaged_character_is_no_other_encoding(bad) -> None:
    what = rf"byte {len(RUSSIAN.encode())} \(0x{bad[0]:02x}\) is not UTF-8, but the text around it is$"
    for after in ("", RUSSIAN):
        with pytest.raises(BadEncodingError, match=what):
            detect_encoding(RUSSIAN.encode() + bad + after.encode())


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf16_without_a_byte_order_mark_is_not_taken_for_utf8_and_is_read_if_it_is_named(order) -> None:
    raw = "Nevermore.\n".encode(f"utf-16-{order}")
    for first in ("", "É", "Ёж "):
        with pytest.raises(BadEncodingError, match=r"^contains NUL, so .*UTF-16 .*utf-16-le or utf-16-be"):
            detect_encoding(first.encode(f"utf-16-{order}") + raw)
    with pytest.raises(BadEncodingError, match=r"has no byte order mark, with which UTF-16 must begin$"):
        decode(raw, "utf-16")
    assert decode(raw, f"utf-16-{order}") == "Nevermore.\n"


def test_a_file_of_no_text_has_no_encoding() -> None:
    with pytest.raises(BadEncodingError, match=r"^byte 1 \(0xff\) is not UTF-8, and no other encoding fits"):
        detect_encoding(b"\x01\xff\x03\x80\x05" * 1009)
    for encoding in ("utf-8", "utf-16", "utf-32", "cp1251", "gb18030"):
        with pytest.raises(BadEncodingError, match="contains NUL"):
            decode("Ёж\0жа\n".encode(encoding), encoding)

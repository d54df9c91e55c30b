"""A short story in many languages, and the encodings in which such texts lie on people's disks."""

import unicodedata

from bukva.corpus.sources.encodings import BadEncodingError, decode, detect_encoding

# language and encodings -> story
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


def is_read(raw: bytes, encoding: str) -> tuple[bool, str]:
    """Return whether the detected encoding gives the text that was encoded, and its name."""
    try:
        name = detect_encoding(raw)
    except BadEncodingError as error:
        return False, str(error)
    return decode(raw, name) == raw.decode(encoding), name

"""A short story in many languages, and the encodings in which such texts lie on people's disks: 57 pairs."""

import unicodedata

from bukva.corpus.sources.formats.encodings import BadEncodingError, decode, detect_encoding

ENCODINGS = {
    "ru": "cp1251 koi8-r cp866 iso8859-5 mac-cyrillic",
    "uk": "cp1251 koi8-u cp1125",
    "bg": "cp1251",
    "sr": "cp1251 cp855",
    "de": "cp1252 mac-roman cp850",
    "fr": "cp1252 iso8859-15 mac-roman cp850",
    "es": "cp1252 cp850",
    "pt": "cp1252 mac-roman",
    "it": "cp1252",
    "nl": "cp1252",
    "sv": "cp1252 cp850",
    "da": "cp1252",
    "nb": "cp1252 cp865",
    "fi": "cp1252",
    "is": "cp1252",
    "pl": "cp1250 iso8859-2 cp852",
    "cs": "cp1250 iso8859-2",
    "hu": "cp1250",
    "ro": "cp1250",
    "hr": "cp1250",
    "el": "cp1253 iso8859-7 cp737",
    "tr": "cp1254",
    "he": "cp1255 cp862",
    "ar": "cp1256",
    "fa": "cp1256",
    "lt": "cp1257",
    "lv": "cp1257",
    "et": "cp1257",
    "vi": "cp1258",
    "th": "cp874",
    "zh_Hans": "gb18030",
    "zh_Hant": "big5",
    "ja": "shift-jis euc-jp",
    "ko": "euc-kr",
}
TONES = "\u0300\u0301\u0303\u0309\u0323"
PAIRS = [(language, encoding) for language, encodings in ENCODINGS.items() for encoding in encodings.split()]

STORY = {
    "ru": "Старая мать сидела у окна и ждала письма. За рекой уже зажгли огни, снег шёл всё гуще, и дорогу замело. "
    "Он приедет весной, сказала она тихо и поставила чайник на плиту.",
    "uk": "Стара мати сиділа біля вікна й чекала листа. За річкою вже засвітили вогні, сніг ішов дедалі густіше. "
    "Він приїде навесні, сказала вона тихо, а її ґава дрімала на ґанку, і є ще надія.",
    "bg": "Старата майка седеше до прозореца и чакаше писмо. Отвъд реката вече светеха огньове, снегът валеше все "
    "по-гъсто и пътят изчезна. Той ще дойде през пролетта, каза тя тихо.",
    "sr": "Стара мајка је седела поред прозора и чекала писмо. Преко реке су већ горела светла, снег је падао све "
    "гушће и пут је нестао. Доћи ће у пролеће, рекла је тихо и ставила чај на шпорет.",
    "de": "Die alte Mutter saß am Fenster und wartete auf einen Brief. Jenseits des Flusses brannten schon die "
    "Lichter, der Schnee fiel immer dichter, und der Weg war längst zugeschneit. Er kommt im Frühling, sagte "
    "sie leise, rückte die Töpfe beiseite und hörte über den Dächern Krähen.",
    "fr": "La vieille mère était assise près de la fenêtre et attendait une lettre. De l'autre côté de la rivière, "
    "les feux étaient déjà allumés, la neige tombait à gros flocons et la route avait disparu. Il viendra au "
    "printemps, dit-elle tout bas en posant la théière où brûlait le poêle, ça ira.",
    "es": "La madre anciana estaba sentada junto a la ventana y esperaba una carta. Más allá del río ya habían "
    "encendido las luces, la nieve caía cada vez más densa y el camino desapareció. ¿Vendrá en primavera?, "
    "preguntó la niña. Quizás mañana, respondió ella, y calentó el agua del té. Así pasó el año.",
    "pt": "A velha mãe estava sentada à janela e esperava uma carta. Do outro lado do rio já havia luzes, a neve "
    "caía cada vez mais espessa e o caminho não se via. Ele virá na estação das flores, disse ela baixinho, e "
    "pôs a água no fogão. O coração não esquece; também o cão sabia que amanhã não haveria pão.",
    "it": "La vecchia madre sedeva alla finestra e aspettava una lettera. Al di là del fiume le luci erano già "
    "accese, la neve cadeva sempre più fitta e la strada non si vedeva più. Verrà in primavera, disse piano, "
    "perché così è sempre stato; poi mise il tè sul fuoco. Nessuno sa se la felicità tornerà, però lei "
    "aspettò.",
    "nl": "De oude moeder zat bij het raam en wachtte op een brief. Aan de overkant van de rivier brandden al "
    "lichten, de sneeuw viel steeds dichter. Ze had drie ideeën, twee zeeën gezien en één zoon in België. Hij "
    "komt in het voorjaar, zei ze zacht; de reünie wordt geïmproviseerd, en niemand was geïnteresseerd in "
    "haar financiële zorgen.",
    "sv": "Den gamla modern satt vid fönstret och väntade på ett brev. På andra sidan ån lyste redan ljusen, snön "
    "föll allt tätare och vägen syntes inte längre. Han kommer till våren, sade hon lågt och ställde kaffet "
    "på spisen. Då gick hönan över gården, och åskan hördes från fjället.",
    "da": "Den gamle mor sad ved vinduet og ventede på et brev. På den anden side af åen var lysene allerede tændt, "
    "sneen faldt tættere og tættere, og vejen forsvandt. Han kommer til foråret, sagde hun sagte og satte "
    "kedlen over. Så gik hønsene over gården, og børnene løb ud på isen.",
    "nb": "Den gamle moren satt ved vinduet og ventet på et brev. På den andre siden av elven var lysene allerede "
    "tent, snøen falt tettere og tettere, og veien ble borte. Han kommer til våren, sa hun lavt og satte "
    "kjelen på ovnen. Så gikk hønene over tunet, og sjøen lå mørk og åpen.",
    "fi": "Vanha äiti istui ikkunan ääressä ja odotti kirjettä. Joen takana paloivat jo valot, lunta satoi yhä "
    "tiheämmin ja tie hävisi näkyvistä. Hän tulee keväällä, äiti sanoi hiljaa ja pani teeveden kiehumaan. "
    "Pöydällä oli leipää, eikä yöllä enää näkynyt tähtiä. Tyttö kysyi, missä päivä nukkuu.",
    "is": "Gamla móðirin sat við gluggann og beið eftir bréfi. Handan árinnar loguðu ljósin þegar, snjórinn féll æ "
    "þéttar og vegurinn hvarf. Hann kemur í vor, sagði hún lágt og setti ketilinn á eldinn. Það er gott að "
    "eiga von, þótt nóttin sé löng og kuldinn sár.",
    "pl": "Stara matka siedziała przy oknie i czekała na list. Za rzeką płonęły już światła, śnieg padał coraz "
    "gęściej, a drogę zasypało. Przyjedzie wiosną, powiedziała cicho i postawiła czajnik na kuchni. Źle się "
    "śpi w taką noc, gdy żadna gwiazda nie świeci, więc ćma siadła przy lampie.",
    "cs": "Stará matka seděla u okna a čekala na dopis. Za řekou už hořela světla, sníh padal stále hustěji a cesta "
    "zmizela. Přijede na jaře, řekla tiše a postavila čajník na kamna. Šťastný je, kdo ještě věří, že se něco "
    "změní; kůň stál ve stáji a žádný člověk nešel kolem.",
    "hu": "Az öreg anya az ablaknál ült, és egy levelet várt. A folyón túl már égtek a fények, a hó egyre sűrűbben "
    "esett, és az út eltűnt. Tavasszal megjön, mondta halkan, és feltette a teát a tűzhelyre. Őszintén hitte, "
    "hogy a gyűrű még megvan, és a kutya is őrizte az üres házat.",
    "ro": "Bătrâna mamă stătea la fereastră şi aştepta o scrisoare. Dincolo de râu ardeau deja luminile, zăpada "
    "cădea tot mai deasă şi drumul dispăruse. Va veni la primăvară, spuse ea încet şi puse ceaiul pe foc. "
    "Nimeni nu ştie ce aduce noaptea, dar câinele păzea curtea şi viaţa mergea înainte.",
    "hr": "Stara majka sjedila je kraj prozora i čekala pismo. Preko rijeke već su gorjela svjetla, snijeg je padao "
    "sve gušće i cesta je nestala. Doći će u proljeće, rekla je tiho i stavila čaj na štednjak. Što će biti, "
    "nitko ne zna, ali žena je još vjerovala i čuvala ključ od kuće.",
    "el": "Η γριά μητέρα καθόταν στο παράθυρο και περίμενε ένα γράμμα. Πέρα από το ποτάμι έκαιγαν ήδη τα φώτα, το "
    "χιόνι έπεφτε όλο και πιο πυκνό και ο δρόμος χάθηκε. Θα έρθει την άνοιξη, είπε σιγά και έβαλε το τσάι στη "
    "φωτιά.",
    "tr": "Yaşlı anne pencerenin önünde oturuyor ve bir mektup bekliyordu. Nehrin ötesinde ışıklar yanmıştı, kar "
    "gittikçe sıklaşıyor, yol görünmez oluyordu. Baharda gelecek, dedi usulca ve çaydanlığı ocağa koydu. "
    "Çocuk sordu: güneş nerede uyuyor? Dağların ardında, dedi kadın, ağaçların gölgesinde.",
    "he": "האם הזקנה ישבה ליד החלון וחיכתה למכתב. מעבר לנהר כבר דלקו האורות, השלג ירד בצפיפות הולכת וגוברת והדרך "
    "נעלמה. הוא יבוא באביב, אמרה בשקט ושמה את הקומקום על האש. הילדה שאלה איפה ישנה השמש בלילה.",
    "ar": "جلست الأم العجوز قرب النافذة تنتظر رسالة. وراء النهر كانت الأضواء قد اشتعلت، والثلج يتساقط بكثافة "
    "متزايدة حتى اختفى الطريق. قالت بصوت خافت إنه سيأتي في الربيع، ثم وضعت الشاي على النار وسألت البنت أين "
    "تنام الشمس.",
    "fa": "مادر پير کنار پنجره نشسته بود و چشم به راه نامه بود. آن سوي رود چراغ ها روشن شده بود و برف تندتر مي "
    "باريد و راه ناپديد شد. آهسته گفت که او در بهار مي آيد و چاي را روي آتش گذاشت. دختر پرسيد خورشيد شب کجا "
    "مي خوابد، پدر گفت پشت کوه.",
    "lt": "Sena motina sėdėjo prie lango ir laukė laiško. Už upės jau degė žiburiai, sniegas krito vis tankiau, ir "
    "kelias dingo. Jis atvažiuos pavasarį, tarė ji tyliai ir užkaitė arbatą. Niekas nežino, ką atneš naktis, "
    "bet šuo saugojo kiemą, o žvaigždės švietė virš ežero.",
    "lv": "Vecā māte sēdēja pie loga un gaidīja vēstuli. Aiz upes jau dega ugunis, sniegs krita arvien biezāk, un "
    "ceļš pazuda. Viņš brauks pavasarī, viņa klusi teica un uzlika tēju vārīties. Neviens nezina, ko nesīs "
    "nakts, bet suns sargāja sētu, un meža malā šķindēja ledus.",
    "et": "Vana ema istus akna ääres ja ootas kirja. Jõe taga põlesid juba tuled, lund sadas üha tihedamalt ja tee "
    "kadus. Ta tuleb kevadel, ütles ema vaikselt ja pani teevee keema. Öö oli pikk, aga õues hüüdis öökull, "
    "ja tüdruk küsis, kus päike magab. Mägede taga, ütles vanaisa.",
    "vi": "Bà mẹ già ngồi bên cửa sổ và chờ một lá thư. Bên kia sông đèn đã sáng, tuyết rơi ngày càng dày và con "
    "đường biến mất. Mùa xuân nó sẽ về, bà nói khẽ rồi đặt ấm nước lên bếp. Đứa bé hỏi ban đêm mặt trời ngủ ở "
    "đâu.",
    "th": "แม่เฒ่านั่งอยู่ข้างหน้าต่างและรอจดหมาย ฝั่งตรงข้ามแม่น้ำมีแสงไฟแล้ว หิมะตกหนักขึ้นเรื่อย ๆ "
    "จนมองไม่เห็นทาง เขาจะมาในฤดูใบไม้ผลิ แม่พูดเบา ๆ แล้ววางกาน้ำบนเตา "
    "เด็กหญิงถามว่ากลางคืนพระอาทิตย์นอนที่ไหน",
    "zh_Hans": "年老的母亲坐在窗边等一封信。河对岸的灯已经亮了，雪越下越密，路也看不见了。他春天会来的，她轻声说，把"
    "水壶放在炉子上。女孩问太阳晚上睡在哪里。睡在山后面，祖父说，明天还会起来。",
    "zh_Hant": "年老的母親坐在窗邊等一封信。河對岸的燈已經亮了，雪越下越密，路也看不見了。他春天會來的，她輕聲說，把"
    "水壺放在爐子上。女孩問太陽晚上睡在哪裡。睡在山後面，祖父說，明天還會起來。",
    "ja": "年老いた母は窓辺に座って手紙を待っていた。川の向こうにはもう灯がともり、雪はますます激しくなって、道"
    "は見えなくなった。春には帰ってくるよ、と母は静かに言って、やかんを火にかけた。",
    "ko": "늙은 어머니는 창가에 앉아 편지를 기다렸다. 강 건너에는 벌써 불이 켜졌고 눈은 점점 더 "
    "많이 내려 길이 보이지 않았다. 봄에는 올 거야, 어머니는 조용히 말하고 주전자를 불 "
    "위에 올려놓았다.",
}


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

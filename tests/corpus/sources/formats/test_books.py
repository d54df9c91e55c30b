"""Books and documents give the text that a reader sees, a line for each paragraph and verse, and their names."""

from pathlib import Path

import pytest
from corpus.sources.formats.made import XHTML, docx, epub, error, fb2, file, odt, read, tei, zipped

NOTHING = "", "", ""  # title, author and year


# ---- FictionBook

INFO = (
    "<author><first-name>Лев</first-name><middle-name>Николаевич</middle-name><last-name>Толстой</last-name></author>"
    "<author><nickname>Аноним</nickname></author><book-title>Война\n и мир</book-title><annotation>нет</annotation>"
    '<date value="1869-01-01">1863 - 1869 гг.</date><translator><last-name>Нет</last-name></translator>'
)


def test_a_book_gives_a_line_for_each_paragraph_verse_and_title_and_its_names(tmp_path) -> None:
    body = """<title><p>Война и мир</p><empty-line/><p>Том 1</p></title>
      <epigraph><p>Эпиграф.</p><text-author>Автор</text-author></epigraph>
      <section><title><p>I</p></title><image l:href="#c.jpg"/><subtitle>* * *</subtitle>
        <p>Потом <emphasis>пере</emphasis>стал, <a l:href="http://x">да</a>
           и <strong>всё</strong>.</p><empty-line/>
        <poem><stanza><v>Первая строка,</v><v>вторая.</v></stanza><date>1800</date></poem>
        <cite><p>Письмо.</p></cite><table><tr><th>a</th><td>b</td></tr></table></section>"""
    text, names, notes = read(file(tmp_path / "a.fb2", fb2(body, INFO)))
    assert text == (
        "Война и мир\nТом 1\nЭпиграф.\nАвтор\nI\n* * *\nПотом перестал, да и всё.\nПервая строка,\nвторая.\n1800\n"
        "Письмо.\na b\n"
    )
    assert names == ("Война и мир", "Лев Николаевич Толстой, Аноним", "1863-1869")
    assert notes == []


def test_notes_of_a_book_are_left_out_with_their_marks_and_counted(tmp_path) -> None:
    marks = '<a l:href="#x" type="note">[1]</a>, да<a l:href="#n_2">[2]</a>, <a l:href="#ch2">да</a>'
    after = '<body name="notes"><section id="x"><title><p>1</p></title><p>Нет.</p></section></body>'
    after += '<body name="Примечания"><p>Нет.</p></body><body name="Приложение"><p>Да.</p></body>'
    text, _, notes = read(file(tmp_path / "a.fb2", fb2(f"<p>Да{marks}.</p>", after=after)))
    assert text == "Да, да, да.\nДа.\n"
    assert notes == [("files_with_parts_left_out", "note references: 2, note sections: 2")]


@pytest.mark.parametrize("declared", ["windows-1251", "koi8-r", "utf-16", "utf-8"])
def test_a_book_is_read_in_the_encoding_that_it_declares_or_in_its_own_if_that_is_a_lie(declared, tmp_path) -> None:
    content = fb2("<p>Ёж и &laquo;уж&raquo;&nbsp;&mdash; A&amp;B &lt;i&gt;</p>", INFO, declared)
    expected = "Ёж и «уж»\u00a0— A&B <i>\n"
    names = ("Война и мир", "Лев Николаевич Толстой, Аноним", "1863-1869")
    assert read(file(tmp_path / "a.fb2", content))[:2] == (expected, names)
    lie = content.decode(declared).replace(declared, "windows-1251").encode()
    assert read(file(tmp_path / "a.fb2", lie))[0] == expected
    assert read(file(tmp_path / "a.fb2", content), declared)[0] == expected  # download.encoding comes first


def test_a_zip_with_one_book_is_that_book(tmp_path) -> None:
    content = fb2("<p>Ёж</p>", encoding="windows-1251")
    assert read(zipped(tmp_path / "a.fb2.zip", {"b.FB2": content, "readme.txt": ""}))[0] == "Ёж\n"
    for parts in ({}, {"a.fb2": content, "b.fb2": content}):
        words = f"is damaged, or is not an .fb2.zip (it contains {len(parts)} .fb2 files, not one). Get the file again."
        assert error(zipped(tmp_path / "b.fb2.zip", parts)) == f"books/b.fb2.zip: {words}"


def test_a_book_that_is_not_well_formed_or_no_book_is_an_error_that_says_so(tmp_path) -> None:
    for content, why in (
        (b"text", "Start tag expected, '<' not found"),
        (fb2("<p>a & b</p>"), "xmlParseEntityRef: no name"),
        (fb2("<p>x</p>")[:-14], "Premature end of data"),
        (fb2("<p>&nosuch;</p>"), "Entity 'nosuch' not defined"),
        (fb2("<p>" * 300_000), "Excessive depth in document: 25"),
    ):
        sentence = error(file(tmp_path / "a.fb2", content))
        assert sentence.startswith(f"books/a.fb2: is not well-formed XML ({why}"), sentence
        assert sentence.endswith("Repair it with `xmllint --recover --encode utf-8 FILE > REPAIRED`.")
    advice = "Convert it to .txt, or add its extension to download.extensions."
    for name, root, roots in (("a.fb2", "html", "<FictionBook>"), ("a.xml", "rss", "<TEI> or <TEI.2> or <teiCorpus>")):
        words = f"books/{name}: its root is <{root}>, not {roots}. {advice}"
        assert error(file(tmp_path / name, f"<{root}><body/></{root}>")) == words


def entities(folder: Path) -> str:
    """Declarations of a file with a secret as &s;, of `haha` as &a0;, and of 10^9 times `haha` as &a9;."""
    file(folder / "secret", "secret")
    bomb = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    return f'<!DOCTYPE p [<!ENTITY a0 "haha"><!ENTITY s SYSTEM "file://{folder}/secret">{bomb}]>'


def test_entities_that_a_book_declares_fetch_nothing_and_do_not_explode(tmp_path) -> None:
    book = fb2("<p>ж&s;&a0;</p>").replace(b"?>\n", b"?>" + entities(tmp_path).encode(), 1)
    assert read(file(tmp_path / "a.fb2", book))[0] == "жhaha\n"
    bomb = file(tmp_path / "a.fb2", book.replace(b"&a0;</p>", b"&a9;</p>"))
    assert "Maximum entity amplification factor" in error(bomb)


# ---- TEI


@pytest.mark.parametrize(
    ("text", "expected", "left_out"),
    [
        ("<body><p>раз\n  два <hi rend='i'>три</hi></p><p>четыре</p></body>", "раз два три\nчетыре\n", ""),
        ("<front><docTitle><titlePart>Нос</titlePart></docTitle></front><head>I</head>", "Нос\nI\n", ""),
        ("<sp><speaker>A.</speaker><stage>(уходит)</stage><p>Да <stage>(плачет)</stage> нет.</p></sp><lg><l>раз</l>"
         "<l part='I'>два</l></lg>", "A.\n(уходит)\nДа (плачет) нет.\nраз\nдва\n", ""),
        ("<p>a<note>нет<note>нет</note></note>b<pb n='1'/>c<note>нет</note><lb/>d</p>", "abc d\n", "notes: 2"),
        ("<p>如是<lb n='1'/>我聞\n<lb/>一時</p>", "如是我聞一時\n", ""),
        ("<p>a <note>n<lb break='no'/></note>e<lb break='no'/>\nf g-\n<pb break='no'/>h</p>", "a ef g-h\n", "notes: 1"),
        ("<p><choice><orig>v</orig><reg>u</reg></choice> <orig>v</orig></p>", "u v\n", "replaced readings: 1"),
        ("<p><choice><corr>a</corr><sic>b</sic></choice><choice><expan>c</expan><abbr>d</abbr></choice></p>", "ac\n",
         "replaced readings: 2"),
        ("<p><app><lem>да</lem><rdg>нет</rdg></app><del>нет</del><add>да</add><gap/><fw>нет</fw></p>", "дада\n",
         "variants: 1, deletions: 1"),
        ("<p><w>Да</w><pc>,</pc> <w>нет</w><w>да</w><c>s</c></p>", "Да, нет даs\n", ""),
        ("<p><w join='right'>не</w>\n<pc>.</pc> <pc join='left'>!</pc>\n<w>Да</w></p>", "не.! Да\n", ""),
        ("<table><row><cell>a</cell><cell>b</cell></row></table><list><item>c</item></list>", "a b\nc\n", ""),
        ("<p>" + "<seg>" * 200 + "x" + "</seg>" * 200 + "</p>", "x\n", ""),
    ],
    ids=range(13),
)  # fmt: skip
def test_the_text_of_an_edition_without_what_is_left_out_and_counted(text, expected, left_out, tmp_path) -> None:
    notes = [("files_with_parts_left_out", left_out)] if left_out else []
    assert read(file(tmp_path / "a.xml", tei(text))) == (expected, NOTHING, notes)


DRAMA = (
    "<titleStmt><title type='main'>Die Räuber</title><title type='sub'>Ein Schauspiel</title><author><persName>"
    "<forename>Friedrich</forename><surname>Schiller</surname></persName><idno type='wikidata'>Q22670</idno></author>"
    "</titleStmt><publicationStmt><date when='2020'/></publicationStmt><sourceDesc><bibl>"
    "<date type='print' when='1781-05'/>"
    "<date type='premiere' when='1782-01-13'/></bibl></sourceDesc>"
)
NOVEL = (
    "<titleStmt><title>Hard Times</title><author>Dickens, Charles</author><author>B</author></titleStmt><sourceDesc>"
    "<bibl type='digitalSource'><date>2003</date></bibl><bibl type='firstEdition'><date>1854</date></bibl></sourceDesc>"
)
EVENT = "<standOff><listEvent><event type='print' when='1808'><desc/></event></listEvent></standOff>"


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (tei("<p>x</p>", DRAMA), ("Die Räuber", "Friedrich Schiller", "1781")),
        (tei("<p>x</p>", NOVEL), ("Hard Times", "Dickens, Charles, B", "1854")),
        (tei("<p>x</p>", after=EVENT), ("", "", "1808")),
        (tei("<p>x</p>", root="TEI.2").replace(b' xmlns="http://www.tei-c.org/ns/1.0"', b""), NOTHING),
    ],
    ids=range(4),
)
def test_an_edition_names_its_title_authors_and_the_year_of_its_first_source(content, names, tmp_path) -> None:
    assert read(file(tmp_path / "a.xml", content))[:2] == ("x\n", names)


# ---- documents of word processors


def run(text: str) -> str:
    return f'<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def test_a_docx_gives_its_paragraphs_as_they_are_after_all_changes(tmp_path) -> None:
    changed = f"<w:ins>{run('да')}</w:ins><w:del><w:r><w:delText>нет</w:delText></w:r></w:del>"
    moved = f"<w:moveFrom>{run('нет')}</w:moveFrom>"
    marks = "<w:r><w:footnoteReference/><w:noBreakHyphen/><w:instrText>PAGE</w:instrText></w:r><w:commentReference/>"
    box = f"<mc:Choice>{run('бокс')}</mc:Choice><mc:Fallback>{run('бокс')}</mc:Fallback>"
    body = (
        f"<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>{run('Раз,  ')}\n {run('два')}"
        f"<w:r><w:tab/><w:t>три</w:t><w:br/><w:t>4</w:t></w:r></w:p>\n<w:p/><w:p>{changed}{moved}{marks}</w:p>"
        f"<w:p><mc:AlternateContent>{box}</mc:AlternateContent></w:p>"
        f"<w:p><w:ruby><w:rt>{run('やま')}</w:rt><w:rubyBase>{run('山')}</w:rubyBase></w:ruby></w:p>"
        f"<w:tbl><w:tr><w:tc><w:p>{run('a')}</w:p></w:tc><w:tc><w:p>{run('b')}</w:p></w:tc></w:tr></w:tbl>"
    )
    text, names, notes = read(zipped(tmp_path / "a.docx", docx(body)))
    assert text == "Раз,  два\tтри\n4\nда-\nбокс\n山\na\nb\n"
    assert names == ("Нос", "Гоголь", "")  # the year is that of the file
    assert notes == [("files_with_parts_left_out", "deletions: 2, notes: 1, comments: 1, ruby readings: 1")]
    parts = docx(f"<w:p>{run('Ёж')}</w:p>", "word/document2.xml", core="")
    assert read(zipped(tmp_path / "a.docx", parts), "cp1251") == ("Ёж\n", NOTHING, [])  # it is UTF-8 in any case


def test_an_odt_gives_its_paragraphs_as_they_are_after_all_changes(tmp_path) -> None:
    who = "<office:change-info>я</office:change-info>"
    body = (
        f"<text:tracked-changes><text:deletion>{who}<text:p>нет</text:p></text:deletion>"
        f"<text:insertion>{who}</text:insertion></text:tracked-changes><text:h>Глава</text:h>"
        '<text:p>раз\n  <text:span>два</text:span><text:s text:c="3"/>три<text:s/><text:tab/>4<text:line-break/>пять'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>нет</text:note-body></text:note>"
        "<office:annotation>нет</office:annotation><svg:title>нет</svg:title><text:soft-page-break/>.</text:p>"
        "<text:p><text:ruby><text:ruby-base>山</text:ruby-base><text:ruby-text>やま</text:ruby-text></text:ruby></text:p>"
    )
    text, names, notes = read(zipped(tmp_path / "a.odt", odt(body)))
    assert text == "Глава\nраз два   три \t4\nпять.\n山\n"
    assert names == ("Нос", "Гоголь", "")
    assert notes == [("files_with_parts_left_out", "deletions: 1, notes: 1, comments: 1, ruby readings: 1")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("<a/>", "its root is <a>, not <document>. Convert it to .txt"),
        (b"<document>\0", "contains NUL"),
    ],
    ids=range(2),
)
def test_a_damaged_document_is_an_error_that_says_why(content, why, tmp_path) -> None:
    path = zipped(tmp_path / "a.docx", {"word/document.xml": content})
    assert error(path).startswith(f"books/a.docx: {why}")


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.fb2.zip", "a.epub"])
def test_what_is_no_zip_or_another_one_is_no_document(name, tmp_path) -> None:
    assert "(File is not a zip file). Get the file again." in error(file(tmp_path / name, b"\xd0\xcf\x11\xe0"))
    assert f"is damaged, or is not a{'' if name == 'a.docx' else 'n'} " in error(zipped(tmp_path / name, {"x": ""}))


# ---- EPUB

ROOT = '<a><rootfile full-path="b.opf"/></a>'
SPINE = '<spine><itemref idref="a"/></spine></p>'
PACKAGE = f'<p><manifest><item id="a" href="a.html" media-type="text/html"/></manifest>{SPINE}'


def bare(path: Path, container: str, package: str = "", page: bytes = b"") -> Path:
    return zipped(path, {"META-INF/container.xml": container, "b.opf": package, "a.html": page})


@pytest.mark.parametrize("package", ["book.opf", "a/b/c.opf"])
def test_chapters_are_read_in_the_order_of_the_spine_without_the_contents(package, tmp_path) -> None:
    chapters = {"глава 1.xhtml": "<p>раз</p>", "a.xhtml": "<p>два<br/>три</p>", "nav.xhtml": "нет", "un.xhtml": "нет"}
    order = ["глава 1.xhtml", "nav.xhtml", "a.xhtml"]
    path = epub(tmp_path / "a.epub", chapters, order, package=package)
    assert read(path) == ("раз\nдва\nтри\n", NOTHING, [])
    raw = XHTML.replace("utf-8", "windows-1251").format("<p>Ёж</p>").encode("cp1251")
    assert read(bare(path, ROOT, PACKAGE, raw))[0] == "Ёж\n"  # in the encoding that it declares
    hidden = "<p>山<rt>やま</rt><i hidden='hidden'>x</i></p>"
    notes = [("files_with_parts_left_out", "ruby readings: 2, hidden elements: 2")]
    assert read(epub(path, dict.fromkeys(["a", "b"], hidden))) == ("山\n山\n", NOTHING, notes)


@pytest.mark.parametrize(
    ("container", "package", "why"),
    [
        ("", "", "not XML"),
        (ROOT.replace("b.opf", "none.opf"), "", "'none.opf'"),
        (ROOT.replace("full-path", "path"), "", "''"),
        (ROOT, PACKAGE, "a.html: contains NUL"),
    ],
    ids=range(4),
)
def test_a_book_without_a_part_of_its_structure_is_an_error(container, package, why, tmp_path) -> None:
    sentence = error(bare(tmp_path / "a.epub", container, package, b"<p>\0\xff"))
    assert sentence.startswith("books/a.epub: is damaged, or is not an epub (")
    assert sentence.endswith("). Get the file again.")
    assert why in sentence


def test_an_encrypted_chapter_is_said_to_be_copy_protected(tmp_path) -> None:
    parts = {"META-INF/container.xml": ROOT, "b.opf": PACKAGE, "a.html": b"<p>\0\xff"}
    path = zipped(tmp_path / "a.epub", parts | {"META-INF/encryption.xml": '<x><CipherReference URI="a.html"/></x>'})
    assert error(path) == "books/a.epub: a.html is encrypted. Get a file without copy protection."


def test_chapters_that_a_book_names_but_does_not_contain_are_told_and_the_others_read(tmp_path) -> None:
    chapters = dict.fromkeys(["a.xhtml", "b.xhtml", "c.xhtml"], "<p>раз</p>")
    path = epub(tmp_path / "a.epub", chapters, missing=["b.xhtml"])
    lost = bare(tmp_path / "b.epub", ROOT, PACKAGE.replace("<spine>", '<spine><itemref idref="gone"/>'), b"<p>x")
    out = bare(tmp_path / "c.epub", ROOT, PACKAGE.replace("a.html", "../../x"))
    for book, text, name in ((path, "раз\nраз\n", "OPS/b.xhtml"), (lost, "x\n", "idref gone"), (out, "", "../../x")):
        assert read(book) == (text, NOTHING, [("epubs_without_all_chapters", name)])


AND = "</dc:creator><dc:creator"


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ("<dc:title> Нос \n повесть</dc:title><dc:creator>Гоголь</dc:creator>", ("Нос повесть", "Гоголь", "")),
        (f"<dc:creator opf:role='trl'>Нет{AND}>А{AND} opf:role='aut'>Б</dc:creator>", ("", "А, Б", "")),
        ("<dc:date>2008-06-26</dc:date>", NOTHING),  # of the file
        ("<dc:date opf:event='x'>2008</dc:date><dc:date opf:event='creation'>1835-01</dc:date>", ("", "", "1835")),
    ],
    ids=range(4),
)
def test_a_book_names_its_title_its_authors_and_the_year_of_the_work(metadata, names, tmp_path) -> None:
    assert read(epub(tmp_path / "a.epub", {"a": ""}, metadata=metadata))[1] == names


def test_entities_of_a_book_are_not_expanded_or_fetched(tmp_path) -> None:
    """Those of its description and of its chapters."""
    doctype, use = entities(tmp_path), "&s;&a9;"
    container, package = (doctype + text.replace(">", ">&s;&a0;", 1) for text in (ROOT, PACKAGE))
    text, *_ = read(bare(tmp_path / "a.epub", container, package, f"{doctype}<p>ж&s;&a0;</p>".encode()))
    assert [word in text for word in ("ж", "secret", "haha")] == [True, False, False]
    bomb = (doctype + text.replace(">", f">{use}", 1) for text in (ROOT, PACKAGE))
    assert error(bare(tmp_path / "a.epub", *bomb)).startswith("books/a.epub: is damaged")

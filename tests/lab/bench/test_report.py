import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from reference.bench_results import lost, make_result, study

from schirn.exceptions import InputError
from schirn.lab.bench import tables
from schirn.lab.bench.protocol import bibtex, protocol_paragraph
from schirn.lab.bench.report import summary, write_outputs

VOID = {"meta", "img", "source", "br", "link", "input"}


class Page(HTMLParser):
    """Collects the text, the tags and the addresses of a page, and checks the nesting."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.words = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.links += [v for k, v in attrs if k in ("src", "srcset", "href") and v]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("outputs") / "new" / "folder"
    written = write_outputs(study(), place, title="A <study> & more", date="1 May")
    assert sorted(written) == sorted(path for path in place.rglob("*") if path.is_file())
    return place


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_outputs_are_all_there(folder):
    names = {path.stem for path in (folder / "tables").iterdir()}
    assert names == {
        *(f"results_{m}" for m in ("average_precision", "ranking_loss", "coverage")),
        *(f"results_{m}" for m in ("hamming_loss", "one_error", "noise_auc")),
        "ranks",
        "win_tie_loss",
        "friedman",
        "wilcoxon",
        "gap_closed_average_precision",
        "costs",
    }
    suffixes = {path.suffix for path in (folder / "tables").iterdir()}
    assert suffixes == {".md", ".tex", ".csv"}
    figures = {path.stem for path in (folder / "figures").iterdir()}
    assert figures == {"gap_closed", "critical_difference"}


def test_figures_come_in_two_formats(folder):
    figures = list((folder / "figures").iterdir())
    assert {path.suffix for path in figures} == {".svg", ".pdf"}
    starts = {".svg": b"<?xml", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(starts[path.suffix]) for path in figures)


def test_protocol_and_references_are_ready_to_paste(folder, page):
    text, latex, entries = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("protocol.txt", "protocol.tex", "references.bib")
    )
    assert text.startswith("We compare Sieve, Schirn, NLR†, FPML‡,")
    for words in (
        "on 4 data sets: scene (r = 1, 2, 3), birds (r = 3, 7, 11), medical",
        "5-fold cross-validation",
        "The parameters of NLR† were chosen on the true labels of the test rows",
        "‡ reconstructed: neither code nor full text was available.",
        "Significance: corrected resampled t-test over the folds of each setting (Nadeau and "
        "Bengio, 2003), level 0.05.",
        "OracleRidge: trained on the true labels, for reference only.",
        "schirn 0.1, python 3.11, numpy 2.0",
    ):
        assert words in text
    assert " ".join(text.split()) in page.text
    cited = set(re.findall(r"\\cite\{(\w+)\}", latex))
    assert cited == set(re.findall(r"@\w+\{(\w+),", entries))
    assert {"schirn", "si2025schirn", "sun2022glc"} < cited
    assert latex.isascii()
    assert "@software" not in entries, "plain.bst does not know it"
    assert entries.count("{") == entries.count("}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_compiles(folder, tmp_path):
    inputs = sorted((folder / "tables").glob("*.tex"))
    body = "\\clearpage\n".join(
        f"\\input{{{path}}}\n" for path in [*inputs, folder / "protocol.tex"]
    )
    document = "\\documentclass{article}\n\\usepackage{booktabs,adjustbox}\n\\begin{document}\n"
    (tmp_path / "all.tex").write_text(document + body + "\\end{document}\n")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.slow
def test_reference_and_test_reach_every_table(tmp_path):
    results = [r for r in study() if r["method"] in ("NLR", "GLC", "FPML")]
    write_outputs(results, tmp_path, reference="GLC", test="corrected", metrics=["one_error"])
    for name in ("results_one_error", "win_tie_loss"):
        text = (tmp_path / "tables" / f"{name}.md").read_text("utf-8")
        assert "GLC‡" in text.splitlines()[0]
        assert "corrected resampled t-test" in text.splitlines()[0]
    assert "corrected resampled" in (tmp_path / "protocol.txt").read_text("utf-8")
    write_outputs(results, tmp_path / "none", reference=None, metrics=["one_error"])
    assert not (tmp_path / "none" / "tables" / "win_tie_loss.md").exists()
    assert "Significance" not in (tmp_path / "none" / "protocol.txt").read_text("utf-8")


def test_page_says_what_was_done(page):
    for words in (
        "A <study> & more",
        "1 May",
        "Sieve has the best rank in average precision (mean rank 1.00 of 7 over 4 data sets",
        "but is not significantly ahead of Schirn",
        "closes 79% of the gap",
        "5 of 400 runs have no result",
        "scene (r = 1, 2, 3), birds (r = 3, 7, 11),",
        "yeastmf (own candidates)",
        "The parameters of NLR† were chosen on the true labels",
        "schirn 0.1, python 3.11, numpy 2.0",
        "† oracle-tuned: parameters chosen on the true labels of the test rows.",
        "timeout: took longer than 60 seconds",
    ):
        assert words in page.text


def test_page_needs_no_network(page):
    inner = [link for link in page.links if not link.startswith("data:image/svg+xml;base64,")]
    assert inner
    assert all(re.fullmatch(r"#\w+", link) for link in inner)
    ids = {attrs.get("id") for _, attrs in page.tags}
    assert {link[1:] for link in inner} <= ids
    assert not page.all("link")
    assert not any("src" in attrs for attrs in page.all("script"))


def test_tables_can_be_sorted_from_the_keyboard(page):
    tables = [attrs for attrs in page.all("table") if attrs.get("class") == "sortable"]
    assert len(tables) == 12
    heads = [attrs for attrs in page.all("th") if attrs.get("scope") == "col"]
    assert len(page.all("button")) == len(heads)
    assert len(page.all("caption")) == len(tables)
    assert any("data-value" in attrs for attrs in page.all("td"))


def test_figures_come_with_words(page):
    images = page.all("img")
    assert len(images) == 2
    assert all(attrs["alt"] for attrs in images)


def test_equal_results_give_equal_files(tmp_path):
    results = [r for r in study() if r["dataset"] == "scene" and r["method"] in ("Schirn", "NLR")]
    one, two = (write_outputs(results, tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_one_data_set_without_references(tmp_path):
    results = [make_result("d", 1, "NLR", k, one_error=0.1 + k / 100) for k in range(3)]
    page = Page(write_outputs(results, tmp_path)[0].read_text(encoding="utf-8"))
    assert "No critical-difference diagram" in page.text
    assert "Gap closed" not in page.text


def test_a_method_leads_only_if_the_test_says_so():
    """The same order of methods on two data sets is no evidence, on twelve it is."""
    results = [
        make_result(f"d{k}", 1, name, 0, one_error=value + k / 100)
        for name, value in (("NLR", 0.3), ("Schirn", 0.2), ("PMLNI", 0.4))
        for k in range(12)
    ]
    first = summary([r for r in results if r["dataset"] in ("d0", "d1")], "one_error")[0]
    assert first.startswith("No method can be called better than the others in one-error (Fri")
    assert "p = " in first
    assert summary(results, "one_error")[0].startswith("Schirn ranks best in one-error (mean rank")


def test_a_tie_for_the_best_rank_is_no_lead(tmp_path):
    results = [make_result("d", 1, name, 0, one_error=0.1) for name in ("NLR", "PMLNI")]
    page = Page(write_outputs(results, tmp_path)[0].read_text(encoding="utf-8"))
    assert "No method can be called better than the others in one-error (one data" in page.text


def test_names_cannot_bring_markup(tmp_path):
    results = [
        make_result("<b>d</b>", 1, "<script>x</script>", k, one_error=0.1 * k) for k in range(3)
    ]
    text = write_outputs(results, tmp_path)[0].read_text(encoding="utf-8")
    assert "<script>x" not in text
    assert "<b>d" not in text
    Page(text)


def test_nothing_to_report(tmp_path):
    with pytest.raises(InputError, match="all 1 runs failed"):
        write_outputs([lost("d", 1, "NLR", 0)], tmp_path)[0]
    with pytest.raises(InputError, match="no benchmark result"):
        write_outputs([], tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_the_protocol_names_parameters_that_differ_from_the_default_and_seeds():
    result = {"dataset": "d", "r": 1, "noise_seed": 1, "method": "Sieve", "folds": 2, "seed": 7}
    result |= {"tuning": "none", "params": {"kernel": "linear", "features": "none"}}
    results = [{**result, "fold": f, "metrics": {"one_error": 0.1}} for f in range(2)]
    text = protocol_paragraph(results)
    assert "Set differently from the default: Sieve (features=none, kernel=linear)." in text
    assert "with seed 7 (seeds of the noise: 1)" in text
    assert "default parameters" not in text


def test_sets_of_the_design_are_marked(tmp_path):
    results = [
        make_result(name, 1, method, fold, average_precision=0.5 + 0.01 * fold)
        for name in ("birds", "flags")
        for method in ("Sieve", "NLR")
        for fold in range(3)
    ]
    write_outputs(results, tmp_path, design={"birds"})
    note = "* used when Sieve was designed"
    for name in ("report.html", "tables/results_average_precision.md"):
        # Markdown escapes asterisks.
        text = (tmp_path / name).read_text("utf-8").replace("\\*", "*")
        assert "birds*" in text
        assert "flags*" not in text
        assert note in text
    write_outputs(results, tmp_path)
    assert note not in (tmp_path / "report.html").read_text("utf-8")


def test_a_single_split_is_not_called_cross_validation():
    results = [make_result("d", 1, m, 0, one_error=0.1) | {"folds": 1} for m in ("Sieve", "NLR")]
    text = protocol_paragraph(results)
    assert "means over one split, a fifth of the rows for tests" in text
    assert "cross-validation" not in text


def test_the_gap_is_pooled_and_settings_below_the_ridge_are_counted(tmp_path):
    """Gains of 2 and -1 points of 10 and 2: 8 %, although the mean of the shares is negative."""
    values = {"a": (0.5, 0.52, 0.6), "b": (0.5, 0.49, 0.52), "c": (0.5, 0.7, 0.6)}
    names = ("CandidateRidge", "Sieve", "OracleRidge")
    results = [
        make_result(dataset, 1, name, fold, average_precision=value)
        for dataset, line in values.items()
        for name, value in zip(names, line, strict=True)
        for fold in range(2)
    ]
    write_outputs(results, tmp_path)
    text = " ".join(Page((tmp_path / "report.html").read_text("utf-8")).text.split())
    assert (
        "In average precision, Sieve gains 0.5 points on average over a ridge trained on the "
        "candidates (CandidateRidge); the same ridge trained on the truth (OracleRidge) gains 6.0. "
        "Pooled over the settings (2), Sieve thus closes 8% of the gap. It is below CandidateRidge "
        "in 1 of them. Left out: 1 setting with a method over a point above OracleRidge."
    ) in text


def test_the_protocol_names_only_sets_with_results_and_no_folders():
    reason = "/home/me/sets/cmc.npz: 3 workers judged item 0"
    results = [
        make_result("d", 1, "Sieve", 0, average_precision=0.5),
        lost("cmc", None, "Sieve", 0, status="skipped", reason=reason),
    ]
    for latex in (False, True):
        text = protocol_paragraph(results, latex=latex)
        assert "on one data set: d (r = 1)" in text
        left_out = "Left out, because no run has a result: cmc (cmc.npz: 3 workers judged item 0)."
        assert left_out in text
        assert "home" not in text
    table = tables.results(results, "average_precision")
    assert "skipped: cmc.npz: 3 workers" in table.render("markdown")
    assert "home" not in table.render("markdown")


def test_the_protocol_says_who_chooses_parameters_in_fit():
    results = [
        make_result("d", 1, name, fold, one_error=0.1) | {"tuning": "none"}
        for name in ("Sieve", "Schirn", "GLC")
        for fold in range(2)
    ]
    text = protocol_paragraph(results)
    assert (
        "Sieve and Schirn chose unset parameters in `fit`, from the candidates of all training "
        "rows. GLC‡ used recommended parameters."
    ) in text
    latex = protocol_paragraph(results, latex=True)
    assert "`" not in latex
    assert r"\texttt{fit}" in latex


def test_the_protocol_cites_the_tests():
    results = [
        make_result(name, 1, method, fold, one_error=0.1 * fold)
        for name in "abc"
        for method in ("Sieve", "NLR", "GLC")
        for fold in range(3)
    ]
    latex = protocol_paragraph(results, latex=True)
    assert r"each setting~\cite{nadeau2003}, level 0.05. Over data sets~\cite{demsar2006}:" in latex
    assert "nadeau2003" not in protocol_paragraph(results, test="paired", latex=True)
    assert "Friedman's test (Friedman, 1937)" in protocol_paragraph(results)
    assert "Over data sets" not in protocol_paragraph(results[:9])
    assert "title = {Inference for the Generalization Error}" in bibtex(["nadeau2003"])

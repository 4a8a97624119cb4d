"""Tables and their rendering as Markdown, LaTeX and CSV."""

import string
from collections.abc import Sequence
from dataclasses import dataclass

from schirn._files import csv_rows
from schirn.exceptions import InputError

SUFFIXES = {"markdown": "md", "latex": "tex", "csv": "csv"}


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its text, the number to sort by, marks and a footnote."""

    text: str
    value: float | None = None
    best: bool = False
    mark: str = ""
    detail: str = ""
    note: str = ""

    def body(self) -> str:
        """Return the text with its mark and its detail, without the mark of the best."""
        return " ".join(text for text in (self.text, self.mark, self.detail) if text)


@dataclass(frozen=True)
class Table:
    """A table that renders in every format.

    Attributes
    ----------
    name : str
        File name without suffix.
    title : str
        Heading.
    head : list of str
        Names of the columns.
    body : list of list of Cell
        Lines of the table.
    notes : list of str
        Notes below the table.
    stub : int
        Number of leading columns that name the line.
    foot : int
        Number of last lines, which summarise the others.
    """

    name: str
    title: str
    head: Sequence[str]
    body: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    stub: int = 1
    foot: int = 0

    def render(self, format: str = "markdown") -> str:
        """Render the table.

        Parameters
        ----------
        format : {"markdown", "latex", "csv"}
            Format of the table.

        Returns
        -------
        str

        Examples
        --------
        >>> from schirn.lab.bench.tables import Cell, Table
        >>> table = Table("t", "A title", ["method", "value"], [[Cell("NLR"), Cell("1.0")]])
        >>> print(table.render("markdown"))
        **A title**
        <BLANKLINE>
        | method | value |
        | :-- | --: |
        | NLR | 1.0 |
        <BLANKLINE>
        """
        writers = {"markdown": _markdown, "latex": _latex, "csv": _csv}
        if format not in writers:
            raise InputError(f"Unknown table format {format!r}; one of: {', '.join(writers)}.")
        return writers[format](self)

    def __str__(self) -> str:
        return self.render()

    def footnotes(self) -> dict[str, str]:
        """Return the letter of each distinct footnote of the cells, in reading order.

        Returns
        -------
        dict from str to str
            From the text of each footnote to its letter.
        """
        notes = dict.fromkeys(cell.note for line in self.body for cell in line if cell.note)
        return {note: _letter(i) for i, note in enumerate(notes)}


def _letter(i: int) -> str:
    """a to z, then aa, ab, and so on."""
    quotient, remainder = divmod(i, 26)
    return (_letter(quotient - 1) if quotient else "") + string.ascii_lowercase[remainder]


def _markdown(table: Table) -> str:
    letters = table.footnotes()

    def show(cell: Cell) -> str:
        text = _pipe(cell.text)
        text = f"**{text}**" if cell.best else text
        text = " ".join(t for t in (text, cell.mark, _pipe(cell.detail)) if t)
        return text + (f"<sup>{letters[cell.note]}</sup>" if cell.note else "")

    align = [":--" if j < table.stub else "--:" for j in range(len(table.head))]
    lines = [[_pipe(name) for name in table.head], align] + [
        [show(cell) for cell in line] for line in table.body
    ]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    foot = [f"<sup>{letter}</sup> {_pipe(note)}" for note, letter in letters.items()]
    notes = [f"- {note}" for note in (*map(_pipe, table.notes), *foot)]
    return "\n".join([f"**{table.title}**", "", *rows, "", *notes, *([""] if notes else [])])


def _pipe(text: str) -> str:
    """Escape text so that it neither ends a Markdown cell nor starts markup."""
    for sign in ("\\", "|", "*", "_", "<", "`"):
        text = text.replace(sign, "&lt;" if sign == "<" else "\\" + sign)
    return " ".join(text.split())


def _latex(table: Table) -> str:
    letters = table.footnotes()

    def show(cell: Cell) -> str:
        text = latex_escape(cell.text)
        text = f"\\textbf{{{text}}}" if cell.best else text
        text = " ".join(t for t in (text, latex_escape(cell.mark), latex_escape(cell.detail)) if t)
        return text + (f"$^{{{letters[cell.note]}}}$" if cell.note else "")

    columns = "l" * table.stub + "r" * (len(table.head) - table.stub)
    notes = [latex_escape(note) for note in table.notes]
    notes += [f"$^{{{letter}}}$ {latex_escape(note)}" for note, letter in letters.items()]
    body = [" & ".join(show(cell) for cell in line) + " \\\\" for line in table.body]
    if table.foot:
        body.insert(-table.foot, "\\midrule")
    lines = [
        "% Needs \\usepackage{booktabs,adjustbox}.",
        "\\begin{table}[ht]",
        "\\centering",
        "\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{latex_escape(table.title)}}}",
        f"\\label{{tab:{table.name.replace('_', '-')}}}",
        "\\small",
        # Only tables that are too large for the page shrink.
        "\\begin{adjustbox}{max width=\\linewidth, max totalheight=0.8\\textheight}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(latex_escape(name) for name in table.head) + " \\\\",
        "\\midrule",
        *body,
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{adjustbox}",
    ]
    if notes:
        lines += ["\\par\\smallskip", "\\raggedright\\footnotesize", " \\\\\n".join(notes)]
    return "\n".join([*lines, "\\end{table}", ""])


_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "•": r"$\bullet$",
    "◦": r"$\circ$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "§": r"$^{\S}$",
    "◇": r"$^{\diamond}$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
}


def latex_escape(text: str) -> str:
    r"""Escape text so that LaTeX prints it literally.

    Examples
    --------
    >>> from schirn.lab.bench._rendering import latex_escape
    >>> latex_escape("a_b & 5 % ± 1")
    'a\\_b \\& 5 \\% $\\pm$ 1'
    """
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _csv(table: Table) -> str:
    return "".join(csv_rows([table.head, *([cell.body() for cell in line] for line in table.body)]))

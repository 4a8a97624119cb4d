"""The draws of certificates that have answers, which share one error rate."""

from dataclasses import dataclass, field


@dataclass
class DrawLedger:
    """Numbers of the draws of certificates that have answers.

    Unlike a ranking, a ledger changes: all rankings that come from one call of `find_noisy_labels`
    share its entries, and `Certificate.answered` records its draw in it. So a draw counts in every
    later certificate, even in one from a ranking that was made before, or without its answers.

    Parameters
    ----------
    n_earlier : int, default=0
        Number of earlier draws, of any sets: those of a file of decisions, and those whose answers
        a ranking has.
    used : dict from str to int, optional
        Number of the draw of each set that has answers, by the hash of the set; empty by default.

    Examples
    --------
    >>> ledger = DrawLedger()
    >>> ledger.record("hash of a set", ledger.next_for("hash of a set"))
    >>> ledger.next_for("hash of a set"), ledger.next_for("hash of another set")
    (0, 1)
    """

    n_earlier: int = 0
    used: dict[str, int] = field(default_factory=dict)

    def record(self, tags_sha256: str, draw: int) -> None:
        """Record that a draw has answers, for all rankings that share the entries.

        Parameters
        ----------
        tags_sha256 : str
            Hash of the set.
        draw : int
            Number of the draw.
        """
        self.used[tags_sha256] = draw

    def next_for(self, tags_sha256: str, random_state: int = 0) -> int:
        """Return the number of the next draw from a set.

        A set keeps the draw that has answers; another set needs a new one.

        Parameters
        ----------
        tags_sha256 : str
            Hash of the set.
        random_state : int, default=0
            Number of draws to skip after the earlier ones.

        Returns
        -------
        int
        """
        new = max(self.used.values(), default=-1) + 1
        return max(self.n_earlier + random_state, self.used.get(tags_sha256, new))

    def after(self, n_draws: int) -> "DrawLedger":
        """Return a ledger with the same, shared entries, after at least this many earlier draws.

        Parameters
        ----------
        n_draws : int
            Number of earlier draws.

        Returns
        -------
        DrawLedger
        """
        return DrawLedger(max(self.n_earlier, n_draws), self.used)

"""A tagger behind HTTP; see `schirn serve`."""

from schirn.lab.bench import overview


def test_the_overview_of_nothing():
    assert overview([]) == "there are no results"

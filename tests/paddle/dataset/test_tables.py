"""Houses, ratings and ranked answers, read from files made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refluid.paddle.cached_files import DataMissing
from refluid.paddle.dataset import movielens, mq2007, uci_housing
from tests.paddle.dataset.archives import write, write_zip

HOUSES = np.random.RandomState(0).uniform(0, 9, (10, 14)).round(4)


@pytest.fixture
def _nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uci_housing, "UCI_TRAIN_DATA", None)
    monkeypatch.setattr(uci_housing, "UCI_TEST_DATA", None)


def _check_houses() -> None:
    train, test = list(uci_housing.train()()), list(uci_housing.test()())
    assert (len(train), len(test)) == (8, 2)
    features = np.array([row for row, _ in train + test])
    low, high = HOUSES[:, :13].min(axis=0), HOUSES[:, :13].max(axis=0)
    expected = (HOUSES[:, :13] - HOUSES[:, :13].mean(axis=0)) / (high - low)
    np.testing.assert_allclose(features, expected)
    assert f"{float(test[1][1]):.4f}" == f"{HOUSES[9, 13]:.4f}"  # as before NumPy 2.4
    assert test[1][1].shape == (1,) and test[1][1][0] == HOUSES[9, 13]
    assert [one[0].shape for one in uci_housing.predict_reader()()] == [(13,)] * 2


@pytest.mark.usefixtures("_nothing_read")
def test_houses(home: Path) -> None:
    text = "\n".join(" " + "  ".join(f"{value:.4f}" for value in row) for row in HOUSES)
    write(home / "uci_housing" / "housing.data", text.encode())
    _check_houses()


@pytest.mark.usefixtures("_nothing_read")
def test_houses_of_the_package(tmp_path: Path) -> None:
    names = ",".join(name.lower() for name in (*uci_housing.feature_names, "medv"))
    rows = "\n".join(",".join(f"{value:.4f}" for value in row) for row in HOUSES)
    write(tmp_path / "packages" / "housing" / "data.csv", f"{names}\n{rows}\n".encode())
    _check_houses()


RATINGS = "".join(f"1::{1193 if n % 2 else 1}::{1 + n % 5}::978300760\n" for n in range(100))


def test_ratings(home: Path) -> None:
    files = {
        "ml-1m/movies.dat": b"1::Toy Story (1995)::Animation|Comedy\n"
        + "1193::Misérables Story (1975)::Drama\n".encode("latin1"),
        "ml-1m/users.dat": b"1::F::1::10::48067\n6040::M::56::3::48067\n",
        "ml-1m/ratings.dat": RATINGS.encode(),
    }
    write_zip(home / "movielens" / "movielens%2Fml-1m.zip", files)
    film = movielens.movie_info()[1]
    assert str(film) == "<MovieInfo id(1), title(Toy Story ), categories(['Animation', 'Comedy'])>"
    assert str(movielens.user_info()[1]) == "<UserInfo id(1), gender(F), age(1), job(10)>"
    assert movielens.movie_categories() == {"Animation": 0, "Comedy": 1, "Drama": 2}
    assert movielens.get_movie_title_dict() == {"misérables": 0, "story": 1, "toy": 2}
    assert (movielens.max_movie_id(), movielens.max_user_id(), movielens.max_job_id()) == (
        *(1193, 6040, 10),
    )
    train, test = list(movielens.train()()), list(movielens.test()())
    assert len(train) + len(test) == 100 and 2 < len(test) < 25
    assert train == list(movielens.train()())
    assert train[0] == [1, 1, 0, 10, 1, [0, 1], [2, 1], [-3.0]]
    assert {sample[-1][0] for sample in train} == {-3.0, -1.0, 1.0, 3.0, 5.0}


def _line(score: int, query: int, first: str = "0.5") -> str:
    rest = " ".join(f"{n}:{n / 100}" for n in range(2, 47))
    return f"{score} qid:{query} 1:{first} {rest} #docid = GX{query}\n"


def test_ranked_answers(home: Path) -> None:
    text = _line(0, 10) + _line(2, 10, "NULL") + _line(1, 10) + _line(0, 11) + "1 qid:12 1:3\n"
    path = write(home / "MQ2007" / "MQ2007" / "MQ2007" / "Fold1" / "train.txt", text.encode())
    pairs = list(mq2007.train())
    assert len(pairs) == 3 and pairs[0][0].tolist() == [1]
    assert pairs[0][1].shape == (46,) and pairs[0][1][0] == -1 and pairs[0][2][0] == 0.5
    assert [score for score, _ in mq2007.train(format="pointwise")] == [2, 1, 0]
    scores, features = next(mq2007.train(format="listwise", fill_missing=0))
    assert scores.tolist() == [[2], [1], [0]] and features.shape == (3, 46) and not features[0, 0]
    assert [one[0] for one in mq2007.train(format="plain_txt")] == [10, 10, 10]
    loaded = mq2007.load_from_text("MQ2007/MQ2007/Fold1/train.txt")
    assert [len(one) for one in loaded] == [3, 1] and path.is_file()
    assert len(list(mq2007.gen_pair(loaded[0], "neighbour"))) == 2


def test_an_archive_that_is_still_packed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "MQ2007" / mq2007.URL.rsplit("/", 1)[-1], b"Rar!")
    monkeypatch.setitem(__import__("sys").modules, "rarfile", None)
    with pytest.raises(DataMissing, match="unpack it in"):
        next(mq2007.test())

"""`paddle.dataset.movielens`: ratings of films by people; MovieLens 1M.

A sample is [user, gender, age group, job, film, its categories, words of its title, [rating]], the
rating 1 to 5 spread over -3 to 5.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from refluid.paddle.dataset import common

__all__ = [
    "age_table",
    "get_movie_title_dict",
    "max_job_id",
    "max_movie_id",
    "max_user_id",
    "movie_categories",
    "movie_info",
    "test",
    "train",
    "user_info",
]

age_table = [1, 18, 25, 35, 45, 50, 56]
URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"

_TITLE = re.compile(r"^(.*)\((\d+)\)$")
Reader = Callable[[], Iterator[list[Any]]]


class MovieInfo:
    """A film's number, categories and title."""

    def __init__(self, index: str | int, categories: list[str], title: str) -> None:
        self.index = int(index)
        self.categories = categories
        self.title = title

    def value(self) -> list[Any]:
        """What a sample says of the film: its number, its categories' and its title's words'."""
        meta = _meta()
        words = [meta.title_words[word.lower()] for word in self.title.split()]
        return [self.index, [meta.categories[one] for one in self.categories], words]

    def __repr__(self) -> str:
        about = f"id({self.index}), title({self.title}), categories({self.categories})"
        return f"<MovieInfo {about}>"

    __str__ = __repr__


class UserInfo:
    """A person's number, gender, age and job."""

    def __init__(self, index: str | int, gender: str, age: str | int, job_id: str | int) -> None:
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self) -> list[int]:
        """What a sample says of the person: number, 0 for a man, place in `age_table`, job."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __repr__(self) -> str:
        gender, age = "M" if self.is_male else "F", age_table[self.age]
        return f"<UserInfo id({self.index}), gender({gender}), age({age}), job({self.job_id})>"

    __str__ = __repr__


@dataclass(frozen=True)
class _Meta:
    movies: dict[int, MovieInfo]
    users: dict[int, UserInfo]
    title_words: dict[str, int]
    categories: dict[str, int]


def _lines(archive: zipfile.ZipFile, name: str) -> Iterator[list[str]]:
    with archive.open(f"ml-1m/{name}") as file:
        for line in file:
            yield line.decode("latin1").strip().split("::")


@lru_cache(maxsize=4)
def _read_meta(path: str) -> _Meta:
    """Films and people of the archive; numbers of words and categories follow their alphabet."""
    movies: dict[int, MovieInfo] = {}
    words: set[str] = set()
    categories: set[str] = set()
    with zipfile.ZipFile(path) as archive:
        for number, title, kinds in _lines(archive, "movies.dat"):
            match = _TITLE.match(title)
            name = match[1] if match else title
            movies[int(number)] = MovieInfo(number, kinds.split("|"), name)
            categories.update(kinds.split("|"))
            words.update(word.lower() for word in name.split())
        users = {
            int(number): UserInfo(number, gender, age, job)
            for number, gender, age, job, *_ in _lines(archive, "users.dat")
        }
    return _Meta(movies, users, _numbered(words), _numbered(categories))


def _numbered(words: set[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(sorted(words))}


def _meta() -> _Meta:
    return _read_meta(fetch())


def _samples(rand_seed: int, test_ratio: float, is_test: bool) -> Iterator[list[Any]]:
    """The ratings in the order of the file; each is a test's by chance, the same in every pass."""
    path = fetch()
    meta, random = _read_meta(path), np.random.RandomState(rand_seed)
    with zipfile.ZipFile(path) as archive:
        for user, movie, rating, _ in _lines(archive, "ratings.dat"):
            if (random.random_sample() < test_ratio) == is_test:
                about = [*meta.users[int(user)].value(), *meta.movies[int(movie)].value()]
                yield [*about, [float(rating) * 2 - 5.0]]


def train(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """A reader of the ratings that are not for tests."""
    return lambda: _samples(rand_seed, test_ratio, is_test=False)


def test(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """A reader of the ratings for tests."""
    return lambda: _samples(rand_seed, test_ratio, is_test=True)


def get_movie_title_dict() -> dict[str, int]:
    """Numbers of the words in titles, in lower case."""
    return _meta().title_words


def movie_categories() -> dict[str, int]:
    """Numbers of the categories."""
    return _meta().categories


def max_movie_id() -> int:
    """The largest number of a film."""
    return max(_meta().movies)


def max_user_id() -> int:
    """The largest number of a person."""
    return max(_meta().users)


def max_job_id() -> int:
    """The largest number of a job."""
    return max(user.job_id for user in _meta().users.values())


def user_info() -> dict[int, UserInfo]:
    """People by number."""
    return _meta().users


def movie_info() -> dict[int, MovieInfo]:
    """Films by number."""
    return _meta().movies


def unittest() -> None:
    """Counts the samples of both readers and prints how many there are."""
    train_count, test_count = (sum(1 for _ in reader()) for reader in (train(), test()))
    print(train_count, test_count)


def fetch() -> str:
    """The path of the archive, downloaded where that is asked for."""
    return common.download(URL, "movielens", MD5)

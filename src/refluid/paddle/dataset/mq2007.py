"""`paddle.dataset.mq2007`: queries and documents that answer them, for learning to rank.

It comes as a RAR archive. Unpack it in the folder MQ2007 of the cache, so that
MQ2007/MQ2007/Fold1/train.txt is there; where the package `rarfile` and a program for it are
installed that is done here.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.paddle.cached_files import DataMissing
from refluid.paddle.dataset import common

URL = (
    "http://www.bigdatalab.ac.cn/benchmark/upload/download_source/"
    "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar"
)
MD5 = "7be1640ae95c6408dab0ae7207bdc706"
_FEATURES = 46
Array = npt.NDArray[Any]


class Query:
    """A document of a query: how well it answers (0, 1, 2), and 46 features."""

    def __init__(
        self,
        query_id: int = -1,
        relevance_score: int = -1,
        feature_vector: list[float] | None = None,
        description: str = "",
    ) -> None:
        self.query_id = query_id
        self.relevance_score = relevance_score
        self.feature_vector = feature_vector if feature_vector is not None else []
        self.description = description

    def __str__(self) -> str:
        features = " ".join(str(value) for value in self.feature_vector)
        return f"{self.relevance_score} {self.query_id} {features}"

    @classmethod
    def parse(cls, text: str, fill_missing: float = -1) -> Query | None:
        """A line `2 qid:10032 1:0.05 2:0.08 .. 46:0.07 # about`; None where features miss."""
        line, _, about = text.partition("#")
        parts = line.split()
        if len(parts) != _FEATURES + 2:
            return None
        score, query, *pairs = parts
        values = [pair.partition(":")[2] for pair in pairs]
        features = [float(one) if one != "NULL" else fill_missing for one in values]
        return cls(int(query.partition(":")[2]), int(score), features, about.strip())


class QueryList:
    """The documents of one query."""

    def __init__(self, querylist: list[Query] | None = None) -> None:
        self.query_id = -1
        self.querylist: list[Query] = []
        for query in querylist or []:
            self._add_query(query)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.querylist)

    def __len__(self) -> int:
        return len(self.querylist)

    def __getitem__(self, i: int) -> Query:
        return self.querylist[i]

    def _correct_ranking_(self) -> None:
        """The best answers first."""
        self.querylist.sort(key=lambda query: -query.relevance_score)

    def _add_query(self, query: Query) -> None:
        if self.query_id == -1:
            self.query_id = query.query_id
        elif self.query_id != query.query_id:
            raise ValueError(
                f"a list has the documents of one query: {self.query_id}, not {query.query_id}"
            )
        self.querylist.append(query)


def _sorted(querylist: Any) -> QueryList:
    documents = querylist if isinstance(querylist, QueryList) else QueryList(list(querylist))
    documents._correct_ranking_()
    return documents


def gen_plain_txt(querylist: Any) -> Iterator[tuple[int, int, Array]]:
    """(query, relevance, features) of each document."""
    for query in _sorted(querylist):
        yield query.query_id, query.relevance_score, np.array(query.feature_vector)


def gen_point(querylist: Any) -> Iterator[tuple[int, Array]]:
    """(relevance, features) of each document."""
    for query in _sorted(querylist):
        yield query.relevance_score, np.array(query.feature_vector)


def gen_pair(querylist: Any, partial_order: str = "full") -> Iterator[tuple[Array, Array, Array]]:
    """([1], features of a better document, features of a worse one), or only neighbours of these.

    partial_order: "full" for all pairs, "neighbour" for documents beside each other.
    """
    documents = _sorted(querylist)
    for place, better in enumerate(documents):
        others = documents.querylist[place + 1 :]
        for worse in others if partial_order == "full" else others[:1]:
            if better.relevance_score > worse.relevance_score:
                yield np.array([1]), np.array(better.feature_vector), np.array(worse.feature_vector)


def gen_list(querylist: Any) -> Iterator[tuple[Array, Array]]:
    """(relevance [n, 1], features [n, 46]) of the whole query."""
    documents = _sorted(querylist)
    yield (
        np.array([[query.relevance_score] for query in documents]),
        np.array([query.feature_vector for query in documents]),
    )


def query_filter(querylists: Sequence[QueryList]) -> list[QueryList]:
    """Leaves out queries without any document that answers."""
    return [one for one in querylists if any(query.relevance_score for query in one)]


def load_from_text(
    filepath: str, shuffle: bool = False, fill_missing: float = -1
) -> list[QueryList]:
    """The queries of a file in the folder MQ2007 of the cache."""
    lists: list[QueryList] = []
    text = (_unpacked(filepath)).read_text(encoding="utf-8")
    for line in text.splitlines():
        query = Query.parse(line, fill_missing)
        if query is not None:
            if not lists or lists[-1].query_id != query.query_id:
                lists.append(QueryList())
            lists[-1]._add_query(query)
    if shuffle:
        random.shuffle(lists)
    return lists


def _unpacked(filepath: str) -> Path:
    path = Path(common.DATA_HOME) / "MQ2007" / filepath
    if not path.is_file():
        archive = fetch()
        try:
            import rarfile
        except ModuleNotFoundError:
            raise DataMissing(
                f"{archive} is packed: unpack it in {Path(archive).parent}, so that "
                f"{path} is there (pip install rarfile, and this is done here)"
            ) from None
        rarfile.RarFile(archive).extractall(path=Path(archive).parent)
    return path


_FORMATS: dict[str, Callable[..., Iterator[Any]]] = {
    "plain_txt": gen_plain_txt,
    "pointwise": gen_point,
    "pairwise": gen_pair,
    "listwise": gen_list,
}


def _read(
    filepath: str, format: str = "pairwise", shuffle: bool = False, fill_missing: float = -1
) -> Iterator[Any]:
    """Samples as the format says: pairwise, pointwise, listwise or plain_txt."""
    for one in query_filter(load_from_text(filepath, shuffle, fill_missing)):
        yield from _FORMATS[format](one)


train = functools.partial(
    _read,
    filepath="MQ2007/MQ2007/Fold1/train.txt",
    format="pairwise",
    shuffle=False,
    fill_missing=-1,
)
test = functools.partial(
    _read,
    filepath="MQ2007/MQ2007/Fold1/test.txt",
    format="pairwise",
    shuffle=False,
    fill_missing=-1,
)


def fetch() -> str:
    """The path of the archive, downloaded where that is asked for."""
    return common.download(URL, "MQ2007", MD5)

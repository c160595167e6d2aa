"""Mean average precision, of a batch and of several, against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from tests.ops.test_nms import body, boxes_of, iou

CLASSES = 4
Batch = tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]


def _batch(seed: int, images: int = 3, difficult: bool = True) -> Batch:
    """Per image detections (label, score, box) and truth (label, difficult, box)."""
    random = np.random.RandomState(seed)
    found, truth = [], []
    for _ in range(images):
        count, more = random.randint(0, 5), random.randint(0, 8)
        boxes = boxes_of(random, count, size=0.4).numpy().clip(0, 1)
        labels = random.randint(1, CLASSES, (count, 1))
        hard = random.randint(0, 2, (count, 1)) * int(difficult)
        truth.append(np.concatenate([labels, hard, boxes], 1).astype("float32"))
        near = np.concatenate([boxes + 0.02, boxes_of(random, more, size=0.3).numpy()])
        kinds = np.concatenate([labels, random.randint(1, CLASSES, (more, 1))])
        score = random.random_sample((count + more, 1))
        found.append(np.concatenate([kinds, score, near], 1).astype("float32"))
    return found, truth


def _count(batches: list[Batch], difficult: bool) -> tuple[dict[int, int], dict[int, list[Any]]]:
    """Boxes per class, and (score, whether true) of the detections of each."""
    positives = dict.fromkeys(range(CLASSES), 0)
    judged: dict[int, list[Any]] = {label: [] for label in range(CLASSES)}
    for found, truth in batches:
        for detections, boxes in zip(found, truth, strict=True):
            for row in boxes:
                positives[int(row[0])] += int(difficult or not row[1])
            taken: set[int] = set()
            for row in sorted(detections.tolist(), key=lambda one: -one[1]):
                own = [k for k, box in enumerate(boxes) if box[0] == row[0]]
                box = torch.tensor(row[2:]).clamp(0, 1)
                by = [iou(box, torch.from_numpy(boxes[k, 2:])) for k in own]
                best = int(np.argmax(by)) if by else -1
                if best < 0 or by[best] <= 0.5:
                    judged[int(row[0])].append((row[1], False))
                elif difficult or not boxes[own[best], 1]:
                    judged[int(row[0])].append((row[1], own[best] not in taken))
                    taken.add(own[best])
    return positives, judged


def _mean(batches: list[Batch], difficult: bool, kind: str) -> float:
    positives, judged = _count(batches, difficult)
    values = []
    for label in range(1, CLASSES):
        if not positives[label]:
            continue
        true = np.array([hit for _, hit in sorted(judged[label], key=lambda one: -one[0])], float)
        precision = true.cumsum() / (np.arange(len(true)) + 1)
        recall = true.cumsum() / positives[label]
        if kind == "integral":
            values.append(float((precision * true).sum() / positives[label]))
        else:
            best = [precision[recall >= step / 10 - 1e-9].max(initial=0) for step in range(11)]
            values.append(sum(best) / 11)
    return float(np.mean(values)) if values else 0.0


def _joined(parts: list[np.ndarray[Any, Any]]) -> tuple[torch.Tensor, Any]:
    return torch.from_numpy(np.concatenate(parts)), (Offsets.of_lengths(map(len, parts)),)


@pytest.mark.parametrize("kind", ["integral", "11point"])
@pytest.mark.parametrize("difficult", [True, False])
def test_detection_map_accumulates(difficult: bool, kind: str) -> None:
    state: tuple[Any, ...] = (None, None, None)
    lod_true: Any = ()
    batches = [_batch(seed) for seed in range(4)]
    for number, (found, truth) in enumerate(batches):
        detections, lod_found = _joined(found)
        boxes, lod_boxes = _joined(truth)
        *state_now, value, lod_true, lod_false = body("detection_map")(
            detections,
            boxes,
            torch.tensor([int(number > 0)], dtype=torch.int32),
            *state,
            lod_DetectRes=lod_found,
            lod_Label=lod_boxes,
            lod_TruePos=lod_true,
            class_num=CLASSES,
            evaluate_difficult=difficult,
            ap_type=kind,
        )
        state = tuple(state_now)
        wanted = _mean(batches[: number + 1], difficult, kind)
        assert float(value) == pytest.approx(wanted, rel=1e-5)
        positives, judged = _count(batches[: number + 1], difficult)
        assert state[0].flatten().tolist() == list(positives.values())
        assert lod_true == lod_false
        assert lod_true[0].lengths == [len(one) for one in judged.values()]


def test_without_detections() -> None:
    boxes = torch.tensor([[1.0, 0.1, 0.1, 0.5, 0.5]])
    given = {"lod_Label": (Offsets([0, 1]),), "class_num": 2}
    nothing = torch.full((1, 1), -1.0)
    _, table, _, value, _, _ = body("detection_map")(
        nothing, boxes, lod_DetectRes=(Offsets([0, 1]),), **given
    )
    assert table.shape == (0, 2) and value.tolist() == [0.0]
    with pytest.raises(EnforceNotMet, match="LoD"):
        body("detection_map")(nothing, boxes, **given)


def _fed(parts: list[np.ndarray[Any, Any]], columns: slice) -> Any:
    rows = np.concatenate(parts)[:, columns]
    return fluid.create_lod_tensor(rows, [[len(part) for part in parts]], fluid.CPUPlace())


def _feed(batch: Batch) -> dict[str, Any]:
    found, truth = batch
    columns = {"label": slice(0, 1), "difficult": slice(1, 2), "box": slice(2, 6)}
    fed = {name: _fed(truth, where) for name, where in columns.items()}
    return {"found": _fed(found, slice(0, 6))} | fed


def _metric() -> tuple[fluid.Program, fluid.Program, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        widths = {"found": 6, "label": 1, "box": 4, "difficult": 1}
        fed = [fluid.data(name, [-1, width], lod_level=1) for name, width in widths.items()]
        metric = fluid.metrics.DetectionMAP(*fed, class_num=CLASSES, evaluate_difficult=False)
    return main, startup, metric


def test_metric_over_batches_and_its_reset() -> None:
    main, startup, metric = _metric()
    executor, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    batches = [_batch(seed) for seed in range(3)]

    def run(batch: Batch) -> list[float]:
        values = executor.run(main, feed=_feed(batch), fetch_list=list(metric.get_map_var()))
        return [value.item() for value in values]

    with fluid.scope_guard(scope):
        executor.run(startup)
        for _ in range(2):
            for number, batch in enumerate(batches):
                wanted = [
                    _mean(some, False, "integral") for some in ([batch], batches[: number + 1])
                ]
                assert run(batch) == pytest.approx(wanted, rel=1e-5)
            metric.reset(executor)


def test_replicas_count_for_themselves() -> None:
    main, startup, metric = _metric()
    replicated = fluid.CompiledProgram(main).with_data_parallel(places=fluid.cpu_places(2))
    executor = fluid.Executor(fluid.CPUPlace())
    batches = [_batch(seed, images=2) for seed in range(4)]
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for number, batch in enumerate(batches, 1):
            (means,) = executor.run(replicated, feed=_feed(batch), fetch_list=[metric.accum_map])
            for replica in (0, 1):
                own = [
                    (some[replica : replica + 1], of[replica : replica + 1])
                    for some, of in batches[:number]
                ]
                assert means[replica] == pytest.approx(_mean(own, False, "integral"), rel=1e-5)


def test_number_of_classes_is_needed() -> None:
    with pytest.raises(ValueError, match="class_num"):
        fluid.metrics.DetectionMAP(None, None, None)  # type: ignore[arg-type]

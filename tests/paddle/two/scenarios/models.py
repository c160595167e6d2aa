"""Models with numbers that follow from the names of their parameters, and what they give."""

import zlib

import numpy as np


def _model(name, size, **settings):
    def run(paddle):
        paddle.disable_static()
        net = getattr(paddle.vision.models, name)(num_classes=5, **settings)
        for label, one in net.state_dict().items():
            random = np.random.RandomState(zlib.crc32(label.encode()))
            fan = int(np.prod(one.shape[1:])) if len(one.shape) > 1 else 1
            value = random.uniform(-1, 1, one.shape) * (3.0 / fan) ** 0.5
            if label.endswith(("_variance", "1.weight")) and len(one.shape) == 1:
                value = np.abs(value) + 0.5
            one.set_value(value.astype("float32"))
        net.eval()
        images = np.random.RandomState(1).uniform(-1, 1, (2, 3, size, size)).astype("float32")
        count = np.array([len(net.state_dict())])
        return {"out": net(paddle.to_tensor(images)).numpy(), "states": count}

    return run


SCENARIOS = {
    "alexnet": _model("alexnet", 224),
    "squeezenet1_0": _model("squeezenet1_0", 64),
    "squeezenet1_1": _model("squeezenet1_1", 64),
    "mobilenet_v1": _model("mobilenet_v1", 64, scale=0.5),
    "mobilenet_v2": _model("mobilenet_v2", 64, scale=0.75),
    "resnet18": _model("resnet18", 64),
    "vgg11": _model("vgg11", 32),
}

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
        made = net(paddle.to_tensor(images))
        shapes = [f"{label} {list(one.shape)}" for label, one in net.state_dict().items()]
        found = {"states": np.array([len(shapes), zlib.crc32(" ".join(shapes).encode())])}
        several = made if isinstance(made, list) else [made]
        return found | {f"out{n}": one.numpy() for n, one in enumerate(several)}

    return run


SCENARIOS = {
    "alexnet": _model("alexnet", 224),
    "squeezenet1_0": _model("squeezenet1_0", 64),
    "squeezenet1_1": _model("squeezenet1_1", 64),
    "mobilenet_v1": _model("mobilenet_v1", 64, scale=0.5),
    "mobilenet_v2": _model("mobilenet_v2", 64, scale=0.75),
    "densenet121": _model("densenet121", 64),
    "densenet161": _model("densenet161", 32),
    "googlenet": _model("googlenet", 224),
    "inception_v3": _model("inception_v3", 80),
    "mobilenet_v3_small": _model("mobilenet_v3_small", 64),
    "mobilenet_v3_small, wider": _model("mobilenet_v3_small", 32, scale=1.25),
    "mobilenet_v3_large": _model("mobilenet_v3_large", 64, scale=0.5),
    "shufflenet_v2_x0_25": _model("shufflenet_v2_x0_25", 64),
    "shufflenet_v2_x2_0": _model("shufflenet_v2_x2_0", 32),
    "shufflenet_v2_swish": _model("shufflenet_v2_swish", 64),
    "resnet18": _model("resnet18", 64),
    "vgg11": _model("vgg11", 32),
}

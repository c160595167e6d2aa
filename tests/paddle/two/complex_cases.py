"""Calls with complex numbers, of transforms to frequencies, and of transducers' loss."""

from tests.paddle.two.cases import c, f, i, numbered, z

_ELEMENTS = ["abs", "angle", "as_real", "conj", "exp", "imag", "real", "sgn", "square", "sqrt"]
_MORE = ["sin", "cos", "tan", "tanh", "sinh", "cosh", "log", "reciprocal", "neg", "t", "log10"]
_BOTH = ["add", "subtract", "multiply", "divide", "matmul", "kron"]
_NORMS = ["backward", "forward", "ortho"]

ELEMENTS = [
    *(c(name, z(3, 4)) for name in [*_ELEMENTS, *_MORE]),
    *(c(name, z(3, 3), z(3, 3)) for name in _BOTH),
    *(c(name, z(3, 4), z(4)) for name in _BOTH[:4]),
    *(c(name, z(3, 4), f(3, 4)) for name in _BOTH[:4]),
    c("angle", f(3, 4)),
    c("conj", f(3, 4)),
    c("as_complex", f(3, 4, 2)),
    c("complex", f(3, 1), f(4)),
    c("polar", f(3, 4, low=0.5), f(3, 4)),
    c("sum", z(3, 4)),
    c("sum", z(3, 4), 1),
    c("mean", z(3, 4), 0),
    c("cumsum", z(3, 4), 1),
    c("scale", z(3, 4), 2.0, 1.0),
    c("cast", f(3, 4), "complex64"),
    c("reshape", z(3, 4), [2, 6]),
    c("transpose", z(3, 4), [1, 0]),
    c("concat", [z(3, 4), z(2, 4)]),
    c("stack", [z(3, 4), z(3, 4)]),
    c("gather", z(3, 4), i(2, high=3)),
    c("flip", z(3, 4), 1),
    c("roll", z(3, 4), 1, 1),
    c("tile", z(3, 4), [2, 1]),
    c("trace", z(3, 3)),
    c("linalg.eigvals", f(3, 3)),
    c("linalg.eigvals", z(2, 3, 3)),
    c("linalg.svd", f(3, 4)),
]
TRANSFORMS = [
    *(c(f"fft.{name}", z(3, 5)) for name in ("fft", "ifft", "irfft", "hfft")),
    *(c(f"fft.{name}", f(3, 6)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
    *(c(f"fft.{name}", z(3, 5), norm=norm) for name in ("fft", "hfft") for norm in _NORMS),
    *(c(f"fft.{name}", f(3, 5), norm=norm) for name in ("rfft", "ihfft") for norm in _NORMS),
    *(c(f"fft.{name}", z(3, 5), 4, 0) for name in ("fft", "ifft", "irfft", "hfft")),
    *(c(f"fft.{name}2", z(2, 3, 4)) for name in ("fft", "ifft", "irfft", "hfft")),
    *(c(f"fft.{name}2", f(2, 3, 4), [4, 3]) for name in ("rfft", "ihfft")),
    *(c(f"fft.{name}n", z(2, 3, 4)) for name in ("fft", "ifft", "irfft", "hfft")),
    *(c(f"fft.{name}n", z(2, 3, 4), axes=[0, 1]) for name in ("fft", "irfft")),
    *(c(f"fft.{name}n", f(2, 3, 4), [2, 4]) for name in ("rfft", "ihfft")),
    c("fft.fftfreq", 5, 0.3),
    c("fft.rfftfreq", 6, 0.3),
    c("fft.fftshift", f(3, 5)),
    c("fft.fftshift", z(3, 5), 1),
    c("fft.ifftshift", f(3, 5)),
    c("fft.ifftshift", f(3, 5), [0]),
    c("signal.stft", f(2, 40), 8),
    c("signal.stft", f(40), 8, 3, window=f(8, low=0.5, fixed=True)),
    c("signal.stft", f(2, 40), 8, 4, 6, center=False, normalized=True),
    c("signal.stft", z(2, 40), 8, onesided=False, center=False),
    c("signal.stft", f(2, 40), 8, pad_mode="constant", onesided=False),
    c("signal.istft", z(2, 5, 11), 8),
    c("signal.istft", z(5, 11), 8, 4, length=30),
    c("signal.istft", z(2, 8, 11), 8, 4, onesided=False, return_complex=True),
    c("signal.istft", z(2, 5, 11), 8, 3, normalized=True, center=False),
]
_LENGTHS = (i(2, low=3, high=5, kind="int32"), i(2, low=1, high=3, kind="int32"))
_RNNT = (f(2, 4, 3, 5), i(2, 2, low=1, kind="int32"), *_LENGTHS)
LOSSES = [
    *(c("nn.functional.rnnt_loss", *_RNNT, reduction=one) for one in ("mean", "sum", "none")),
    c("nn.functional.rnnt_loss", *_RNNT, blank=4, fastemit_lambda=0.5),
    *(
        c("put_along_axis", f(3, 4), i(2, 4, high=3), f(2, 4), 0, reduce, own, False)
        for reduce in ("add", "mul", "mean")
        for own in (True, False)
    ),
    *(
        c("nn.functional.pad", f(2, 3, 4, 5), [1, 2, 2, 1], mode, data_format=order)
        for mode in ("reflect", "replicate", "circular")
        for order in ("NCHW", "NHWC")
    ),
    *(
        c("nn.functional.pad", f(2, 3, 5), [2, 1], mode, data_format=order)
        for mode in ("constant", "reflect", "replicate", "circular")
        for order in ("NCL", "NLC")
    ),
    *(
        c("nn.functional.pad", f(2, 3, 4, 3, 5), [2, 1, 1, 0, 1, 2], mode, data_format=order)
        for mode in ("constant", "reflect", "replicate", "circular")
        for order in ("NCDHW", "NDHWC")
    ),
    c(
        "nn.functional.cross_entropy",
        f(4, 3),
        f(4, 3, low=0, high=1, fixed=True),
        label_smoothing=0.3,
    ),
]

CASES = numbered([*ELEMENTS, *TRANSFORMS, *LOSSES])

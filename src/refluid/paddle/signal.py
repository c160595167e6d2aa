"""`paddle.signal`: spectra of short windows of a signal, and the signal from them."""

from __future__ import annotations

from refluid.ir.variable import Variable
from refluid.paddle import fft
from refluid.paddle.framework.dtypes import is_complex
from refluid.paddle.nn.functional.shapes import pad
from refluid.paddle.nn.functional.vision import fold
from refluid.paddle.tensor import complexes, derived, manipulation, math
from refluid.paddle.tensor.creation import ones, to_tensor
from refluid.paddle.tensor.making import cast_to, rank_of

_LEAST = 1e-11  # of the windows' squares that must add up to something


def _window(window: Variable | None, n_fft: int, length: int | None, like: Variable) -> Variable:
    """A window of `n_fft`: the given one, or ones, of `length` in the middle of zeros."""
    length = n_fft if length is None else length
    if not 0 < length <= n_fft:
        raise ValueError(f"win_length has to be in (0, {n_fft}], not {length}")
    if window is None:
        parts = complexes.real(like) if is_complex(like) else like
        window = ones([length], parts.dtype)
    if list(window.shape) != [length]:
        raise ValueError(f"the window has to be of shape [{length}], not {list(window.shape)}")
    before = (n_fft - length) // 2
    return pad(window, [before, n_fft - length - before]) if length < n_fft else window


def stft(
    x: Variable,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Variable | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
    name: str | None = None,
) -> Variable:
    """Spectra (.., frequencies, windows) of windows of `n_fft` samples of x (.., samples).

    hop_length: from one to the next, n_fft // 4 by default. center: windows have their middle, not
    their start, at multiples of it; x is continued by `pad_mode`. onesided: n_fft // 2 + 1
    frequencies, of real x only. normalized: divided by the root of n_fft. ValueError for sizes
    that don't fit.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        raise ValueError(f"hop_length should be > 0, but got {hop}")
    if onesided and is_complex(x):
        raise ValueError("onesided has to be False for a complex signal")
    shaped = _window(window, n_fft, win_length, x)
    single = rank_of(x) == 1
    given = manipulation.unsqueeze(x, 0) if single else x
    if center:
        if pad_mode not in ("constant", "reflect"):
            raise ValueError(f"pad_mode should be 'reflect' or 'constant', but got {pad_mode!r}")
        both = [n_fft // 2] * 2
        padded = pad(manipulation.unsqueeze(given, 1), both, pad_mode, data_format="NCL")
        given = manipulation.squeeze(padded, 1)
    if not 0 < n_fft <= given.shape[-1]:
        raise ValueError(f"n_fft should be in (0, {given.shape[-1]}], but got {n_fft}")
    frames = derived.unfold(given, -1, n_fft, hop)
    transform = fft.rfft if onesided else fft.fft
    spectra = transform(
        math.multiply(frames, cast_to(shaped, frames.dtype)),
        norm="ortho" if normalized else "backward",
    )
    turned = manipulation.transpose(spectra, [0, 2, 1])
    return manipulation.squeeze(turned, 0) if single else turned


def istft(
    x: Variable,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Variable | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
    return_complex: bool = False,
    name: str | None = None,
) -> Variable:
    """The signal (.., samples) whose spectra by `stft`, with the same settings, are nearest to x.

    x: complex (.., frequencies, windows). length: of the signal, else what the windows cover.
    ValueError for sizes that don't fit.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    found = n_fft // 2 + 1 if onesided else n_fft
    if x.shape[-2] != found:
        raise ValueError(f"x has {x.shape[-2]} frequencies, {found} are expected of n_fft {n_fft}")
    if return_complex and onesided:
        raise ValueError("onesided has to be False where a complex signal is wanted")
    shaped = _window(window, n_fft, win_length, x)
    if not 0 < hop <= shaped.shape[0]:
        raise ValueError(f"hop_length should be in (0, {shaped.shape[0]}], but got {hop}")
    single = rank_of(x) == 2
    spectra = manipulation.transpose(manipulation.unsqueeze(x, 0) if single else x, [0, 2, 1])
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = fft.ifft(spectra, norm=norm)
    else:
        half = spectra if onesided else spectra[:, :, : n_fft // 2 + 1]
        frames = fft.irfft(half, n=n_fft, norm=norm)
    frames = math.multiply(frames, cast_to(shaped, frames.dtype))
    count = int(x.shape[-1])
    squares = manipulation.expand(
        manipulation.unsqueeze(math.square(shaped), [0, 1]), [1, count, n_fft]
    )
    weights = _added(squares, hop)
    whole = math.divide(_parts_added(frames, hop), cast_to(_known(weights), frames.dtype))
    start = n_fft // 2 if center else 0
    end = n_fft + hop * (count - 1) - start
    kept = whole[:, start : end if length is None else start + length]
    return manipulation.squeeze(kept, 0) if single else kept


def _known(weights: Variable) -> Variable:
    """Sums of windows' squares; 1 where no window has anything."""
    nothing = cast_to(math.abs(weights) < to_tensor([_LEAST], weights.dtype), weights.dtype)
    return math.add(weights, nothing)


def _parts_added(frames: Variable, hop: int) -> Variable:
    if not is_complex(frames):
        return _added(frames, hop)
    real, imag = complexes.real(frames), complexes.imag(frames)
    return complexes.complex(_added(real, hop), _added(imag, hop))


def _added(frames: Variable, hop: int) -> Variable:
    """(N, windows, n) added up where they overlap, each `hop` after the former: (N, samples)."""
    _, count, size = frames.shape
    total = int(size) + hop * (int(count) - 1)
    columns = manipulation.transpose(frames, [0, 2, 1])
    made = fold(columns, [1, total], [1, int(size)], [1, hop])
    return manipulation.squeeze(made, [1, 2])

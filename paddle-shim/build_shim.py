"""Builds the shim's wheel (PEP 517), unless a real paddlepaddle is installed where it would go."""

import base64
import glob
import hashlib
import os
import sysconfig
import tomllib
import zipfile

_HERE = os.path.dirname(os.path.abspath(__file__))


def _project():
    with open(os.path.join(_HERE, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)["project"]


def _refuse_beside_paddle():
    for name in ("purelib", "platlib"):
        folder = glob.escape(sysconfig.get_path(name))
        for found in glob.glob(os.path.join(folder, "paddlepaddle*.dist-info")):
            raise SystemExit(
                f"paddlepaddle is installed ({found}): `import paddle` can mean only one of it and "
                "refluid. Uninstall it first (pip uninstall paddlepaddle), or leave this out: "
                "`refluid run train.py` works beside it"
            )


def _files():
    project = _project()
    info = f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {name}" for name in project["dependencies"]),
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: build_shim", "Root-Is-Purelib: true"]
    commands = [f"{name} = {where}" for name, where in project["scripts"].items()]
    with open(os.path.join(_HERE, "paddle.py"), "rb") as file:
        module = file.read()
    return info, {
        "paddle.py": module,
        f"{info}/METADATA": "\n".join([*about, ""]).encode(),
        f"{info}/entry_points.txt": "\n".join(["[console_scripts]", *commands, ""]).encode(),
        f"{info}/WHEEL": "\n".join([*wheel, "Tag: py3-none-any", ""]).encode(),
    }


def _line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):  # noqa: ARG001
    """Writes the wheel into a folder; its name."""
    _refuse_beside_paddle()
    info, files = _files()
    record = [_line(name, content) for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{info.removesuffix('.dist-info')}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    """There is no source distribution: the folder is one."""
    raise NotImplementedError("install the folder itself: pip install ./paddle-shim")

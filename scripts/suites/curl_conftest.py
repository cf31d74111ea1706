"""For curl's tests of FTP: only their environment, without the web servers that the other tests need."""

import os
import shutil

import pytest
from testenv import Env
from testenv.env import EnvConfig


@pytest.fixture(scope="session")
def env(pytestconfig) -> Env:
    env = Env(pytestconfig=pytestconfig, env_config=EnvConfig(pytestconfig=pytestconfig))
    env.setup()
    return env


def empty(path: str) -> None:
    """The tests remove the directory that is served and make it again, while the server runs: ours keeps serving the
    one that it was started with, and is not to leave it for another."""
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path)
        else:
            os.remove(entry.path)


remove_tree, shutil.rmtree = shutil.rmtree, empty

"""Limits of control groups, read from made-up trees of /proc and /sys."""

import math
from pathlib import Path

import pytest

from jobs.system import process
from jobs.system.process import cpu_quota, free_memory, memory_limit

V2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw"
V1_CPU = "32 31 0:29 {group} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"


def tree(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    """A root with the two files of /proc, and files of control groups below /sys/fs/cgroup."""
    for name, text in {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "quota"),
    [
        pytest.param("0::/", V2, {"cpu.max": "150000 100000"}, 1.5, id="a container"),
        pytest.param("0::/", V2, {"cpu.max": "max 100000"}, math.inf, id="a container without a quota"),
        pytest.param(
            "0::/kube/pod/box",
            V2,
            {"kube/cpu.max": "max 100000", "kube/pod/cpu.max": "50000 100000", "kube/pod/box/cpu.max": "200000 100000"},
            0.5,
            id="the group above has less",
        ),
        pytest.param(
            "0::/../other",
            V2,
            {"cpu.max": "300000 100000", "other/cpu.max": "1 1"},
            3,
            id="a path outside of the mount",
        ),
        pytest.param(
            "4:cpu,cpuacct:/docker/box\n3:memory:/docker/box",
            V1_CPU.format(group="/docker/box"),
            {"cpu,cpuacct/cpu.cfs_quota_us": "250000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            2.5,
            id="version 1, a container that sees its own path",
        ),
        pytest.param(
            "4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n0::/a",
            V1_CPU.format(group="/") + "\n" + V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
            {
                "cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/a/cpu.cfs_quota_us": "20000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "10000",
            },
            2,
            id="version 1 beside version 2, nested",
        ),
        pytest.param("0::/", "31 23 0:28 / /proc rw - proc proc rw", {"cpu.max": "1 1"}, math.inf, id="none mounted"),
    ],
)
def test_the_smallest_quota_along_the_path_counts(
    tmp_path: Path, groups: str, mounts: str, files: dict[str, str], quota: float
) -> None:
    assert cpu_quota(tree(tmp_path, groups, mounts, files)) == quota


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) == memory_limit(tmp_path) == free_memory(tmp_path) == math.inf


def test_the_smallest_limit_of_memory_along_the_path_counts_and_so_does_what_is_left(tmp_path: Path) -> None:
    files = {
        "a/b/memory.max": "max",
        "a/b/memory.current": "100",
        "a/memory.max": "1000",
        "a/memory.current": "300",
        "memory.max": "2000",
        "memory.current": "1900",
    }
    two = tree(tmp_path / "two", "0::/a/b", V2, files)
    one = tree(
        tmp_path / "one",
        "3:memory:/a",
        V1_MEMORY,
        {"memory/a/memory.limit_in_bytes": "1000", "memory/a/memory.usage_in_bytes": "300"},
    )

    assert (memory_limit(two), free_memory(two)) == (1000, 100)
    assert (memory_limit(one), free_memory(one)) == (1000, 700)


@pytest.mark.parametrize(
    ("quota", "cores"), [(math.inf, 4), (1.5, 2), (2.0, 2), (0.1, 1), (3.01, 4), (4.0, 4), (64.0, 4)]
)
def test_a_part_of_a_core_counts_as_a_core(monkeypatch: pytest.MonkeyPatch, quota: float, cores: int) -> None:
    monkeypatch.setattr(process.os, "sched_getaffinity", lambda _pid: {0, 2, 3, 7})
    monkeypatch.setattr(process, "cpu_quota", lambda: quota)

    assert process.available_cores() == cores

"""A real server of S3 on this machine: moto's, in a process of its own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.places import TESTS

KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server, without kvjobs in between."""

    name: str
    port: int
    client: Any  # boto3's
    server: "subprocess.Popen[str]"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a program finds the server."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}", "AWS_EC2_METADATA_DISABLED": "true"}

    def put(self, key: str, content: bytes) -> str:
        """Store an object; its address."""
        self.client.put_object(Bucket=self.name, Key=key, Body=content)
        return f"s3://{self.name}/{key}"

    def fill(self, pattern: str, content: bytes, count: int) -> None:
        """Store so many objects with this content; a number, from 0, is put into the pattern of their keys."""
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps([self.name, pattern, content.decode(), count]) + "\n")
        self.server.stdin.flush()
        assert self.server.stdout.readline() == "done\n"

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def keys(self) -> list[str]:
        return [found["Key"] for found in self.client.list_objects_v2(Bucket=self.name).get("Contents", [])]

    def uploads(self) -> int:
        """How many uploads are neither completed nor aborted."""
        return len(self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", []))

    def ask_for_keys(self, *, strictly: bool) -> None:
        """Refuse requests of users that the server does not know, or serve everybody."""
        count = b"0" if strictly else b"1000000"
        address = f"http://127.0.0.1:{self.port}/moto-api/reset-auth"
        urllib.request.urlopen(
            urllib.request.Request(address, data=count, headers={"Content-Type": "text/plain"})
        ).close()


@dataclass(frozen=True)
class MotoServer:
    port: int
    process: "subprocess.Popen[str]"


@contextmanager
def moto_server() -> Iterator[MotoServer]:
    command = [sys.executable, "-m", "tests.moto_server"]
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=TESTS.parent, **how) as process:  # type: ignore[call-overload]
        try:
            yield MotoServer(int(process.stdout.readline()), process)
        finally:
            process.kill()


def bucket_of(server: MotoServer, name: str) -> Bucket:
    """A new bucket, without objects."""
    import boto3

    port = server.port

    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region_name=KEYS["AWS_DEFAULT_REGION"],
    )
    client.create_bucket(Bucket=name)
    return Bucket(name, port, client, server.process)


def main() -> None:
    """Serve until the process is killed; each line of standard input asks for objects, as `Bucket.fill` does."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    for line in sys.stdin:
        name, pattern, content, count = json.loads(line)
        for number in range(count):
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(name, pattern.format(number), content.encode())
        print("done", flush=True)


if __name__ == "__main__":
    main()

"""The team through LiteLLM's proxy, whose callback records the calls in the trace of the program that asks."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
origin = f"http://127.0.0.1:{port}"
model = {"model": "openai/made-up", "api_base": os.environ["MODEL_URL"], "api_key": "none"}
config = {
    "model_list": [{"model_name": "made-up", "litellm_params": model}],
    "litellm_settings": {"callbacks": ["otel"]},
}
file = pathlib.Path("litellm-proxy.json")
file.write_text(json.dumps(config))
command = [pathlib.Path(sys.executable).with_name("litellm"), "--config", file, "--port", str(port), "--host", "127.0.0.1"]
proxy = subprocess.Popen(command, stdout=sys.stderr)
try:
    for _ in range(120):
        try:
            urllib.request.urlopen(f"{origin}/health/liveliness").read()
            break
        except OSError:
            time.sleep(1)
    os.environ["BASE_URL"] = f"{origin}/v1"

    import litellm_team as team
    from spans import provider

    team.run()
    provider.shutdown()
    time.sleep(6)  # The proxy sends its spans every five seconds.
finally:
    proxy.terminate()
    proxy.wait(20)

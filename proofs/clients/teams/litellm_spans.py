"""The team by LiteLLM's SDK, traced by LiteLLM's own callback."""

import litellm
import litellm_team as team
from litellm.litellm_core_utils.thread_pool_executor import executor
from spans import provider

litellm.callbacks = ["otel"]
team.run()
executor.shutdown()
provider.shutdown()

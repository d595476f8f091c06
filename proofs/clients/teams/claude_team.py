"""A planner that looks up two cities at once and calls a writer, its sub-agent, in the Claude Agent SDK, through the gateway."""

import asyncio
import os

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, create_sdk_mcp_server, query, tool


@tool("look_up", "Look up a city.", {"city": str})
async def look_up(given):
    return {"content": [{"type": "text", "text": f"{given['city']} is far"}]}


options = ClaudeAgentOptions(
    model="made-up",
    system_prompt="You plan.",
    mcp_servers={"team": create_sdk_mcp_server(name="team", tools=[look_up])},
    agents={"writer": AgentDefinition(description="Writes.", prompt="You write.", tools=[], model="inherit")},
    allowed_tools=["mcp__team__look_up", "Agent", "Task"],
    tools=["Agent", "Task"],
    setting_sources=[],
    env={
        "ANTHROPIC_BASE_URL": f"{os.environ['TROUPE_URL']}/e/claude-team/a/planner",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MAX_THINKING_TOKENS": "0",
    },
)


async def main():
    async for message in query(prompt="How far are Bern and Rome?", options=options):
        print(message)


asyncio.run(main())

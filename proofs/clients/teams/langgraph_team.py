"""A planner that looks up two cities at once and hands over to a writer, in LangGraph. The environment says how it is traced."""

import os

from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode


@tool
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


@tool
def transfer_to_writer() -> str:
    """Hand over to the writer."""
    return "Handed over."


model = ChatOpenAI(model="made-up", base_url=os.environ["MODEL_URL"], api_key="none")
tools = [look_up, transfer_to_writer]
planning = model.bind_tools(tools)

graph = StateGraph(MessagesState)
graph.add_node("planner", lambda state: {"messages": [planning.invoke(state["messages"])]})
graph.add_node("tools", ToolNode(tools))
graph.add_node("writer", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_edge(START, "planner")
graph.add_edge("planner", "tools")
graph.add_conditional_edges(
    "tools", lambda state: "writer" if state["messages"][-1].name == "transfer_to_writer" else "planner", ["planner", "writer"]
)
graph.add_edge("writer", END)
graph.compile().invoke({"messages": [{"role": "user", "content": "How far are Bern and Rome?"}]})
wait_for_all_tracers()

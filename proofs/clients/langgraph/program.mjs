// A graph of one node with a fake chat model, traced by LangChain's own tracer.

import { LangChainTracer } from '@langchain/core/tracers/tracer_langchain';
import { FakeListChatModel } from '@langchain/core/utils/testing';
import { MessagesAnnotation, StateGraph } from '@langchain/langgraph';
import { Client } from 'langsmith';

const client = new Client({ apiUrl: process.env.TROUPE_URL, apiKey: 'none' });
const tracer = new LangChainTracer({ client });

const model = new FakeListChatModel({ responses: ['Far.'] });
const graph = new StateGraph(MessagesAnnotation)
  .addNode('planner', async ({ messages }, config) => ({ messages: [await model.invoke(messages, config)] }))
  .addEdge('__start__', 'planner')
  .compile();
await graph.invoke({ messages: [{ role: 'user', content: 'How far?' }] }, { callbacks: [tracer] });
await client.awaitPendingTraceBatches();

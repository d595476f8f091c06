// A tree of runs by hand, as LangSmith users write it without LangChain.
import { Client } from 'langsmith';
import { RunTree } from 'langsmith/run_trees';

const client = new Client({ apiUrl: process.env.TROUPE_URL, apiKey: 'none' });

const team = new RunTree({ name: 'team', run_type: 'chain', inputs: { question: 'How far?' }, client });
await team.postRun();
const call = team.createChild({
  name: 'chat',
  run_type: 'llm',
  inputs: { messages: [{ role: 'user', content: 'How far?' }] },
  extra: { metadata: { langgraph_node: 'planner' } },
});
await call.postRun();
await call.end({ choices: [{ index: 0, message: { role: 'assistant', content: 'Far.' } }] });
await call.patchRun();
await team.end({ answer: 'Far.' });
await team.patchRun();
await client.awaitPendingTraceBatches();

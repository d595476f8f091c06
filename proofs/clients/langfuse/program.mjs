// Langfuse's own batches, as its SDK sent them until version 3.
import { Langfuse } from 'langfuse';

const langfuse = new Langfuse({ baseUrl: process.env.TROUPE_URL, publicKey: 'none', secretKey: 'none' });

const trace = langfuse.trace({ name: 'team', input: 'How far?' });
const input = [{ role: 'user', content: 'How far?' }];
const call = trace.generation({ name: 'chat', model: 'made-up', input, metadata: { agent_name: 'planner' } });
call.end({ output: { role: 'assistant', content: 'Far.' } });
trace.score({ name: 'reward', value: 1 });
await langfuse.shutdownAsync();

/**
 * The model that plays the world, as a server that answers by a script. A call that is in the reference has the result from there, another
 * call of a tool that there is has one that could be, and what is no call ends the conversation. It grades with 1 who made the call of the
 * reference and then gave its result.
 *
 *   node --import tsx examples/simulated-world/world.ts [--port 9919]
 */
import { serveModel } from '../lib/model-server.ts';
import { createRandom, seedOf } from '../lib/random.ts';

const TOOLS: Readonly<Record<string, readonly string[]>> = {
  colour: ['red', 'blue', 'black', 'white'],
  price: ['low', 'high'],
  shop: ['north', 'south'],
};

serveModel(({ messages, seed }) => {
  const [task = '', reference = ''] = messages[0]!.content.split('. Reference: ');
  const [tool = '', result = ''] = reference.split(' ');
  const words = messages.at(-1)!.content.split(' ');
  const last = words.at(-1)!;
  if (task !== 'Simulate') return last === result && words.slice(0, -1).includes(tool) ? '1' : '0';
  const results = TOOLS[last];
  if (results === undefined) return '[TERMINATE]';
  return last === tool ? result : results[createRandom(seedOf(seed, last)).int(results.length)]!;
}, 9919);

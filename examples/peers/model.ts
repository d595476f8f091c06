/**
 * A model that adds, as a server that answers by a script. How often it is right follows from its system prompt. Where it reads others it gives
 * 5 to those who say what it found itself and 1 to the others, and then says what most say, itself included.
 *
 *   node --import tsx examples/peers/model.ts [--port 9923]
 */
import { serveModel } from '../lib/model-server.ts';
import { createRandom, seedOf } from '../lib/random.ts';

const RIGHT: Readonly<Record<string, number>> = { carefully: 0.9, steadily: 0.8, quickly: 0.65, blindly: 0.1 };

serveModel(({ messages, seed }) => {
  const [system, asked] = messages.map(({ content }) => content) as [string, string];
  const [question, received] = asked.split(' heard ');
  const random = createRandom(seedOf(seed, system, asked));
  const sum = question!.match(/\d+/g)!.reduce((total, digits) => total + Number(digits), 0);
  const skill = Object.entries(RIGHT).find(([word]) => system.includes(word))?.[1] ?? 0.5;
  const own = String(random.next() < skill ? sum : sum + 1 + random.int(9));
  if (received === undefined) return own;
  const answers = received.split(' ');
  const count = (answer: string) => [...answers, own].filter((one) => one === answer).length;
  const most = [own, ...answers].sort((a, b) => count(b) - count(a))[0];
  return [most, ...answers.map((one) => (one === own ? 5 : 1))].join(' ');
}, 9923);

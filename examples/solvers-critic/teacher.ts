/**
 * A teacher, as a model server that answers by a script: it plays every role of the team, in the format of M500, and errs. One solver in
 * five is wrong, one in twelve forgets to think, and one critic in ten sees what is not there.
 *
 *   node --import tsx examples/solvers-critic/teacher.ts [--port 9919]
 */
import { serveModel } from '../lib/model-server.ts';
import { createRandom, seedOf } from '../lib/random.ts';

serveModel(({ messages, seed }) => {
  const prompt = messages.at(-1)!.content;
  const [role, , first, , second, , ...rest] = prompt.split(' ');
  const random = createRandom(seedOf(seed, prompt));
  const larger = Math.max(Number(first), Number(second));
  const thought = `<think> ${Math.min(Number(first), Number(second))} less ${larger} </think>`;
  if (role === 'solver') {
    if (random.next() < 1 / 12) return `\\boxed{${larger}}`;
    return `${thought} \\boxed{${random.next() < 0.2 ? (first === String(larger) ? second : first) : larger}}`;
  }
  const [one, other] = rest.slice(-2);
  if (role === 'evaluator') return `${thought} \\boxed{${random.next() < 0.5 ? one : other}}`;
  const agree = (one === String(larger) && other === one) !== random.next() < 0.1;
  return `${thought} ${agree ? '[Agree]' : '[Disagree]'}`;
}, 9919);

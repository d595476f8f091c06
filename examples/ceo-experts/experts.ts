/**
 * The experts, as a model server that answers by a script. Each thinks for as many words as it may and then says a number: the right one if
 * it knows the subject and had words enough for the question, otherwise another one.
 *
 *   node --import tsx examples/ceo-experts/experts.ts [--port 9918]
 */
import { serveModel } from '../lib/model-server.ts';
import { createRandom, seedOf } from '../lib/random.ts';

const SUBJECTS = ['sums', 'rivers', 'kings', 'metals'];
/** Words of thought that a question takes. */
const TAKES: Readonly<Record<string, number>> = { brief: 2, medium: 6, long: 12 };

/** From 1 to 9. The files of tasks hold the same numbers. */
const numberOf = (subject: string, length: string, key: string): number =>
  1 + ((2 * SUBJECTS.indexOf(subject) + TAKES[length]! + 3 * Number(key)) % 9);

serveModel(({ messages, maxTokens, seed }) => {
  const knows = messages[0]!.content.split(' ').at(-1)!;
  const question = messages.at(-1)!.content;
  const [subject = '', length = '', key = ''] = question.split(' ');
  const thought = Math.max(0, maxTokens - 1);
  const right = numberOf(subject, length, key);
  const able = knows === subject && thought >= TAKES[length]!;
  const wrong = 1 + ((right + createRandom(seedOf(seed, question, knows)).int(8)) % 9);
  return [...Array.from({ length: thought }, () => 'so'), able ? right : wrong].join(' ');
}, 9918);

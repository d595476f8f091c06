/** The tasks of `three-roles.ts`, its words, and the lessons of teachers that err. */
import { shuffle } from '../trainer/learn/data/shuffle.ts';
import { randomStream } from '../trainer/tensor/random.ts';

export type Sum = {
  readonly task_id: string;
  readonly prompt: string;
  readonly word: string;
  readonly kind: string;
  readonly a: number;
  readonly b: number;
};

const MEANS: Readonly<Record<string, readonly string[]>> = {
  more: ['grow', 'add', 'raise', 'gain'],
  less: ['shrink', 'drop', 'lower', 'lose'],
  most: ['top', 'best', 'peak', 'high'],
};
export const KINDS = Object.keys(MEANS);
const NUMBERS = 8;
/** Of all prompts and answers, without those that are no words. */
export const WORDS = [
  ...['router', 'worker', 'checker', 'is', 'yes', 'no'],
  ...KINDS.flatMap((kind) => [kind, ...MEANS[kind]!]),
  ...Array.from({ length: 2 * NUMBERS }, (_, number) => String(number)),
];

export const resultOf = (kind: string, a: number, b: number): string =>
  String(kind === 'more' ? a + b : kind === 'less' ? Math.abs(a - b) : Math.max(a, b));

/** All tasks in an order of the seed's, the last of them held out. */
export function tasksOf(
  seed: number,
  heldOut: number,
): { readonly train: readonly Sum[]; readonly held: readonly Sum[] } {
  const numbers = Array.from({ length: NUMBERS }, (_, number) => number);
  const all = KINDS.flatMap((kind) =>
    MEANS[kind]!.flatMap((word) =>
      numbers.flatMap((a) =>
        numbers.map((b): Sum => ({ task_id: `${word}-${a}-${b}`, prompt: `${word} ${a} ${b}`, word, kind, a, b })),
      ),
    ),
  );
  const drawn = shuffle(all, randomStream(seed));
  return { train: drawn.slice(heldOut), held: drawn.slice(0, heldOut) };
}

/** A lesson for each role of each task; so large a share of the answers is drawn at random. */
export function lessonsOf(tasks: readonly Sum[], seed: number, wrong: number): object[] {
  const { uniform } = randomStream(seed + 1);
  const any = (most: number) => Math.floor(uniform() * most);
  return tasks.flatMap(({ word, kind, a, b }) => {
    const right = resultOf(kind, a, b);
    const lesson = (asked: string, answer: string, random: () => string) => ({
      messages: [
        { role: 'user', content: asked },
        { role: 'assistant', content: uniform() < wrong ? random() : answer },
      ],
    });
    const shown = uniform() < 0.5 ? right : String(any(2 * NUMBERS));
    return [
      lesson(`router ${word} ${a} ${b}`, kind, () => KINDS[any(KINDS.length)]!),
      lesson(`worker ${kind} ${a} ${b}`, right, () => String(any(2 * NUMBERS))),
      lesson(`checker ${word} ${a} ${b} is ${shown}`, shown === right ? 'yes' : 'no', () => ['yes', 'no'][any(2)]!),
    ];
  });
}

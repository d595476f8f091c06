/** Feedback of any kind and tasks, and the verdicts and scores that SQL reads. */
import { expect } from 'vitest';
import type { Event, EventData } from '../../../../ingest/events/events.ts';
import { at, event } from '../../support/events.ts';
import { expectNumber, type JudgedDatabase } from './judged.ts';

type Fact = EventData<'feedback.recorded'>;

let feedbacks = 0;
/** Feedback of any kind, on the episode where no other target is named. */
export const tell = (
  episode: string,
  about: Partial<Omit<Fact, 'target'>> & { readonly target?: Partial<Fact['target']> },
  second = 30,
): Event =>
  event(
    'feedback.recorded',
    {
      feedback_id: `feedback ${feedbacks++}`,
      kind: 'score',
      name: 'something',
      ...about,
      target: { kind: 'episode', episode_id: episode, ...about.target },
    },
    { time: at(second) },
  );

export const aTask = (id: string, data: Partial<EventData<'task.defined'>> = {}): Event =>
  event('task.defined', { task_id: id, ...data }, { time: at(0) });

export type Wanted = Readonly<Record<string, readonly [value: number | boolean | null, reason: string | null]>>;

/** The rows that a method wrote are these and no others; numbers agree to 1e-12. */
export async function expectSaid(
  { rows }: JudgedDatabase,
  table: 'verdicts' | 'scores',
  method: string,
  wanted: Wanted,
) {
  const place = table === 'verdicts' ? `concat_ws(' ', episode_id, step_id)` : 'key';
  const found = await rows<{ place: string; value: number | boolean | null; reason: string | null }>(
    `select ${place} as place, ${table === 'verdicts' ? 'keep' : 'value'} as value, reason from traj.${table} where method = '${method}'`,
  );
  expect(found.map((row) => row.place).sort(), method).toEqual(Object.keys(wanted).sort());
  for (const { place, value, reason } of found) {
    const [expected, why] = wanted[place]!;
    expect(reason, `${method} of ${place}`).toBe(why);
    if (typeof value === 'number' && typeof expected === 'number')
      expectNumber(value, expected, `${method} of ${place}`);
    else expect(value, `${method} of ${place}`).toBe(expected);
  }
  return found;
}

/** Records the episodes and judges them by themselves. */
export async function judgeThese(
  base: JudgedDatabase,
  methods: Parameters<JudgedDatabase['run']>[0],
  ...plays: readonly Event[][]
) {
  await base.load(...plays);
  const ids = plays
    .flat()
    .flatMap(({ name, data }) =>
      name === 'episode.started' ? [(data as EventData<'episode.started'>).episode_id] : [],
    );
  await base.run(methods, ids);
}

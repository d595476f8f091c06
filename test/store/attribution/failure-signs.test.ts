import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { failureSigns, failureSignsWithReference } from '../../../store/evaluate/methods/failure-signs.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import {
  type Suspect,
  signsOf,
  signsWithReference,
  type TranscriptEntry,
} from '../../../store/evaluate/methods/transcript-signs.ts';

const says = (agent: string, text: string, more: Partial<TranscriptEntry> = {}): TranscriptEntry => ({
  kind: 'agent',
  agent,
  text,
  ...more,
});
const shows = (text: string, failed?: boolean): TranscriptEntry => ({
  kind: 'environment',
  agent: null,
  text,
  ...(failed === undefined ? {} : { failed }),
});
const asks: TranscriptEntry = { kind: 'user', agent: null, text: 'how many bridges has the city' };

describe('signs of failure', () => {
  it('only an entry of an agent with a name can be blamed', () => {
    const entries = [asks, says('a', 'I look'), shows('nothing'), { ...says('a', 'hm'), agent: null }];
    expect(signsOf({ question: null, entries }).map(({ entry }) => entry)).toEqual([1]);
  });

  it('an agent that hands over once coordinates in all that it says', () => {
    const entries = [says('lead', 'plan'), says('lead', 'go', { hands_over: true }), says('worker', 'done')];
    const seen = signsOf({ question: null, entries }).map(({ signs }) => [signs.coordinates, signs.hands_over]);
    expect(seen).toEqual([
      [1, 0],
      [1, 1],
      [0, 0],
    ]);
  });

  it('what the record says of a tool goes before what its words look like', () => {
    const work = (shown: TranscriptEntry) =>
      signsOf({ question: null, entries: [says('a', 'run it'), shown] })[0]!.signs;
    expect(work(shows('exit code: 1')).work_failed).toBe(1);
    expect(work(shows('exitcode: 2 (execution failed)')).work_failed).toBe(1);
    expect(work(shows('KeyError: 3')).work_failed).toBe(1);
    expect(work(shows('exitcode: 0 (execution succeeded)')).work_failed).toBe(0);
    expect(work(shows('a page about every error', false)).work_failed).toBe(0);
    expect(work(shows('fine', true)).work_failed).toBe(1);
  });

  it('words of the last entry belong to the first that used them, those of the question to nobody', () => {
    const last = 'the city certainly has seventeen bridges altogether';
    const entries = [asks, says('a', 'perhaps seventeen'), says('b', 'certainly'), says('a', last)];
    const brought = signsOf({ question: asks.text, entries }).map(({ signs }) => signs.introduces);
    // certainly, seventeen, altogether; bridges and city stand in the question.
    expect(brought).toEqual([1 / 3, 1 / 3, 1 / 3]);
  });

  it('a number is the reference only where it stands alone', () => {
    const named = (text: string, reference: string) =>
      signsWithReference({ question: null, entries: [says('a', text)] }, reference)[0]!.signs.names_reference;
    expect(named('it is 17.', '17')).toBe(1);
    expect(named('it is 170', '17')).toBe(0);
    expect(named('it is 2.17', '17')).toBe(0);
    expect(named('Fluffy indeed', 'fluffy')).toBe(1);
    expect(named('anything', '')).toBe(0);
  });

  it('an answer that was there and is lost again is seen', () => {
    const entries = [says('a', 'it is 17'), says('b', 'no, 12'), says('a', '12 then')];
    const lost = signsWithReference({ question: null, entries }, '17').map(({ signs }) => signs.after_reference);
    expect(lost).toEqual([0, 1, 1]);
  });
});

const entry: fc.Arbitrary<TranscriptEntry> = fc.record({
  kind: fc.constantFrom('agent', 'agent', 'environment', 'user'),
  agent: fc.constantFrom('a', 'b', 'c', null),
  text: fc.string({ maxLength: 60 }),
  hands_over: fc.boolean(),
  failed: fc.constantFrom(true, false, null),
});
const run = fc.record({
  question: fc.option(fc.string(), { nil: null }),
  entries: fc.array(entry, { maxLength: 12 }),
});

describe('a ranked diagnosis', () => {
  it('gives every agent with an entry one line; shares sum to 1 and fall; an agent has at least the share of its entry', () => {
    fc.assert(
      fc.property(run, (input) => {
        const ranked = runMethod(failureSigns, input) as Suspect[];
        const agents = input.entries.flatMap((one) => (one.kind === 'agent' && one.agent !== null ? [one.agent] : []));
        expect(ranked.map(({ agent }) => agent).sort()).toEqual([...new Set(agents)].sort());
        if (ranked.length === 0) return;
        expect(ranked.reduce((sum, { value }) => sum + value, 0)).toBeCloseTo(1, 9);
        for (const [i, { value, entry_value, agent, entry: at }] of ranked.entries()) {
          expect(value).toBeGreaterThanOrEqual(entry_value);
          expect(input.entries[at]!.agent).toBe(agent);
          if (i > 0) expect(value).toBeLessThanOrEqual(ranked[i - 1]!.value);
        }
      }),
    );
  });

  it('knows no names: other names, the same shares and entries', () => {
    const renamed = (name: string | null) => name && `Expert ${name}`;
    fc.assert(
      fc.property(run, (input) => {
        const other = { ...input, entries: input.entries.map((one) => ({ ...one, agent: renamed(one.agent) })) };
        const ranked = runMethod(failureSigns, input) as Suspect[];
        expect(runMethod(failureSigns, other)).toEqual(ranked.map((one) => ({ ...one, agent: renamed(one.agent) })));
      }),
    );
  });

  it('with no weight on any sign every entry has the same share', () => {
    const nothing = Object.fromEntries(Object.keys(failureSigns.params).map((name) => [name, 0]));
    const entries = [says('a', 'x'), says('b', 'a longer text with 12'), says('a', '```')];
    expect(runMethod(failureSigns, { question: null, entries, ...nothing })).toMatchObject([
      { agent: 'a', entry: 0, entry_value: 1 / 3 },
      { agent: 'b', entry: 1, value: 1 / 3 },
    ]);
  });

  it('a weight is a parameter: turned up, it decides', () => {
    const entries = [says('a', 'I assume so'), says('b', 'measured')];
    const surest = (guesses: number) =>
      (runMethod(failureSigns, { question: null, entries, guesses }) as Suspect[])[0]!.agent;
    expect([surest(20), surest(-20)]).toEqual(['a', 'b']);
  });

  it('a reference that is named and lost can be made to count against the agent that lost it', () => {
    const entries = [says('a', 'it is 17 and nothing else'), says('b', 'no, it is 12')];
    const last = runMethod(failureSignsWithReference, {
      question: null,
      entries,
      reference: '17',
      names_reference: 0,
      after_reference: 30,
    });
    expect((last as Suspect[])[0]!.agent).toBe('b');
  });
});

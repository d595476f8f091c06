import { describe, expect, it } from 'vitest';
import type { EventName } from '../../ingest/events/events.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { FORMATS, formatNamed, recognise } from '../../ingest/formats/catalogue.ts';
import { type RestoredEvent, restates } from '../../ingest/formats/kit/format.ts';
import { taskIdOfText } from '../../ingest/formats/kit/native.ts';
import { expectBelow } from '../support/measured.ts';
import { completion, FAILURE_LOG, SERVICE_RUN } from './support/native-samples.ts';

const convert = (format: string, value: unknown, ordinal = 0) =>
  formatNamed(format).convert({ value, canonical: canonicalJson(value), ordinal });
const dataOf = (drafts: readonly RestoredEvent[], name: EventName): Record<string, unknown>[] =>
  drafts.filter((draft) => draft.name === name).map((draft) => draft.data as Record<string, unknown>);

describe('a format', () => {
  it('is recognised by content alone', () => {
    const seen = (...records: unknown[]) => recognise({ records, shape: 'lines' })?.name ?? null;
    expect(seen(SERVICE_RUN)).toBe('tau-bench');
    expect(seen(FAILURE_LOG)).toBe('who-when');
    expect(seen(completion('r', 0, 'x'))).toBe('openai-chat');
    expect(seen({ messages: 'hi' }, { messages: [{ role: 'user', content: 'q' }] })).toBe('openai-chat');
    expect(seen({ specversion: '1.0', id: '1', source: 's', type: 'troupe.task.defined.v1' })).toBe('troupe-events');
    expect(seen({ messages: [{ source: 'a', content: 'q' }] }, 3, null, 'text')).toBeNull();
  });

  it('that is not in the catalogue is refused with the names that are', () => {
    expect(() => formatNamed('otel')).toThrow(
      `There is no format "otel"; there are ${FORMATS.map(({ name }) => name).join(', ')}.`,
    );
  });

  it('gives equal records ids of their own by their ordinal, and the same record the same ids', () => {
    for (const [format, value] of [
      ['tau-bench', SERVICE_RUN],
      ['who-when', FAILURE_LOG],
      ['openai-chat', { messages: [{ role: 'user', content: 'q' }] }],
    ] as const) {
      const ids = (ordinal: number) => convert(format, value, ordinal).drafts.map((draft) => draft.id);
      expect(ids(0)).toEqual(ids(0));
      const own = convert(format, value, 1).drafts.filter((draft) => !restates(formatNamed(format), draft.name));
      expect(own.filter((draft) => ids(0).includes(draft.id))).toEqual([]);
    }
  });
});

describe('tau-bench', () => {
  const { drafts, refusals } = convert('tau-bench', SERVICE_RUN);

  it('names the task by the hash of info.task and groups the trials of a team', () => {
    const [task] = dataOf(drafts, 'task.defined');
    // printf %s '{"actions":[{"kwargs":{"n":1},"name":"book"}],"instruction":"Book the ferry.","outputs":["ok"],"user_id":"ann_1"}' | sha256sum
    expect(task!.task_id).toBe('tau-bench/a516db03b14fca31');
    expect(task!.reference).toEqual([{ name: 'book', kwargs: { n: 1 } }]);
    const [episode] = dataOf(drafts, 'episode.started');
    expect(episode).toMatchObject({ task_id: task!.task_id, attempt: 1 });
    const other = convert('tau-bench', { ...SERVICE_RUN, trial: 2, reward: 0 });
    expect(dataOf(other.drafts, 'episode.started')[0]!.group_id).toBe(episode!.group_id);
    expect(dataOf(other.drafts, 'episode.started')[0]!.episode_id).not.toBe(episode!.episode_id);
    const prompted = convert('tau-bench', {
      ...SERVICE_RUN,
      traj: [{ role: 'system', content: 'You book trains.' }, ...SERVICE_RUN.traj.slice(1)],
    });
    expect(dataOf(prompted.drafts, 'episode.started')[0]!.group_id).not.toBe(episode!.group_id);
  });

  it('makes each assistant message one call with the messages before it as input', () => {
    expect(refusals).toEqual([]);
    const requested = dataOf(drafts, 'generation.requested');
    expect(requested.map((data) => (data.input as unknown[]).length)).toEqual([2, 4, 6]);
    expect(requested.map((data) => data.turn)).toEqual([0, 1, 2]);
    expect(dataOf(drafts, 'generation.completed')).toHaveLength(3);
    expect(dataOf(drafts, 'message.sent').map((data) => [data.from, data.content])).toEqual([
      ['system', 'You book ferries.'],
      ['user', 'One seat please.'],
      ['user', 'Thanks.'],
    ]);
    expect(dataOf(drafts, 'agent.defined')).toMatchObject([
      { agent_id: 'agent', system_instructions: 'You book ferries.' },
    ]);
  });

  it('keeps tool calls apart whose native id repeats, each with its own result', () => {
    expect(dataOf(drafts, 'tool.called').map((data) => [data.tool_call_id, data.name])).toEqual([
      ['c', 'find'],
      ['c#2', 'book'],
    ]);
    expect(dataOf(drafts, 'tool.returned').map((data) => [data.tool_call_id, data.output])).toEqual([
      ['c', 'seat 3'],
      ['c#2', 'done'],
    ]);
  });

  it('takes the reward as feedback on the episode, and no reward as unknown, not 0', () => {
    const [reward] = dataOf(drafts, 'feedback.recorded');
    expect(reward).toMatchObject({ kind: 'reward', name: 'reward', value: 1, target: { kind: 'episode' } });
    expect(dataOf(drafts, 'episode.finished')[0]!.outcome).toBe('success');
    const none = convert('tau-bench', { ...SERVICE_RUN, reward: null }).drafts;
    expect(dataOf(none, 'feedback.recorded')).toEqual([]);
    expect(dataOf(none, 'episode.finished')[0]!.outcome).toBe('unknown');
    const odd = convert('tau-bench', { ...SERVICE_RUN, reward: 'high' });
    expect(odd.refusals.map((refusal) => refusal.field)).toEqual(['reward']);
    expect(dataOf(odd.drafts, 'generation.completed')).toHaveLength(3);
  });

  it('reads an entry that only failed as an episode with outcome error', () => {
    const failed = convert('tau-bench', {
      task_id: 3,
      reward: 0,
      trial: 0,
      traj: [],
      info: { error: 'boom', traceback: 'at x' },
    });
    expect(failed.refusals).toEqual([]);
    expect(dataOf(failed.drafts, 'episode.finished')).toMatchObject([
      { outcome: 'error', unmapped: { info: { traceback: 'at x' } } },
    ]);
    expect(dataOf(failed.drafts, 'environment.observed')).toMatchObject([{ kind: 'error', content: 'boom' }]);
  });

  it('keeps what has no place', () => {
    const { unmapped } = dataOf(drafts, 'episode.finished')[0]!;
    expect(unmapped).toEqual({ info: { source: 'user', user_cost: 0.5 } });
  });
});

describe('who-when', () => {
  it('reads who is spoken to at once, however much white space is there', () => {
    const history = [{ name: 'solver', role: `solver (->${' '.repeat(50_000)}`, content: 'c' }];
    const began = performance.now();
    expect(dataOf(convert('who-when', { ...FAILURE_LOG, history }).drafts, 'control.transferred')).toEqual([]);
    expectBelow(performance.now() - began, 5000);
  });

  it('reads speakers without their suffix, people and terminals apart from agents', () => {
    const { drafts } = convert('who-when', FAILURE_LOG);
    expect(dataOf(drafts, 'generation.completed').map((data) => [data.call_id, data.agent_id])).toEqual([
      ['m1', 'Orchestrator'],
      ['m2', 'Searcher'],
    ]);
    expect(dataOf(drafts, 'message.sent').map((data) => data.from)).toEqual(['human']);
    expect(dataOf(drafts, 'environment.observed').map((data) => data.content)).toEqual(['exitcode: 0']);
    expect(dataOf(drafts, 'control.transferred')).toMatchObject([{ from_agent: 'Orchestrator', to_agent: 'Searcher' }]);
    expect(dataOf(drafts, 'agent.defined').map((data) => data.name)).toEqual(['Orchestrator', 'Searcher']);
    expect(dataOf(drafts, 'task.defined')).toMatchObject([{ task_id: 'q-7', ground_truth: '20', difficulty: '2' }]);
    expect(dataOf(drafts, 'episode.finished')[0]!.outcome).toBe('failure');
  });

  it('keeps the label on agent and entry, flagged where the agent is not the speaker', () => {
    const label = (changes: object) =>
      dataOf(convert('who-when', { ...FAILURE_LOG, ...changes }).drafts, 'feedback.recorded');
    expect(label({})).toMatchObject([
      { kind: 'failure', name: 'mistake', target: { kind: 'agent', id: 'Searcher', entry: 2, step_id: 'm2/0' } },
    ]);
    expect(label({})[0]!.flags).toBeUndefined();
    for (const changes of [
      { mistake_step: '1' },
      { mistake_step: '3', mistake_agent: 'ComputerTerminal' },
      { mistake_agent: 'Nobody' },
      { mistake_step: 0, mistake_agent: 'human' },
    ]) {
      expect(label(changes)[0]!.flags).toEqual(['agent_mismatch']);
    }
  });

  it('refuses a label that names no entry and keeps the trajectory', () => {
    for (const step of ['eleven', '4', -1, 1.5, null]) {
      const { drafts, refusals } = convert('who-when', { ...FAILURE_LOG, mistake_step: step });
      expect(refusals.map((refusal) => refusal.field)).toEqual(['mistake_step']);
      expect(dataOf(drafts, 'feedback.recorded')).toEqual([]);
      expect(dataOf(drafts, 'generation.completed')).toHaveLength(2);
    }
  });
});

describe('the task of a text', () => {
  it('is the same for texts that differ in normalisation and outer white space', () => {
    expect(taskIdOfText('  caf\u00e9 ')).toBe(taskIdOfText('cafe\u0301'));
    expect(taskIdOfText('cafe')).not.toBe(taskIdOfText('caf\u00e9'));
  });
});

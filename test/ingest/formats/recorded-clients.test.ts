/**
 * What tracing clients really sent of one small team: a planner looks up two cities at once and hands over to a writer. Recorded from
 * `npm run proofs -- clients-arrive --full`, a span a line; the model server billed 10 + n tokens in and 3 n out for its nth answer.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Draft } from '../../../ingest/events/events.ts';
import { eventsOfTrace } from '../../../ingest/formats/traces/live-traces.ts';

const FOLDER = join(import.meta.dirname, 'recorded');

const recorded = (name: string, change = (line: string) => line): readonly Draft[] => {
  const lines = readFileSync(join(FOLDER, `${name}.jsonl`), 'utf8')
    .trimEnd()
    .split('\n');
  return eventsOfTrace(lines.map((line) => ({ format: 'otlp', item: JSON.parse(change(line)) })));
};

/** The facts of a run as its events state them. */
function teamIn(drafts: readonly Draft[]) {
  const of = <T>(name: string) => drafts.filter((draft) => draft.name === name).map(({ data }) => data as T);
  const calls = of<{
    agent_id?: string;
    choices: { content?: unknown }[];
    usage: { input_tokens: number; output_tokens: number };
  }>('generation.completed').sort((a, b) => a.usage.input_tokens - b.usage.input_tokens);
  const results = new Map(
    of<{ tool_call_id: string; output: unknown }>('tool.returned').map((one) => [one.tool_call_id, one.output]),
  );
  const first = calls[0]!.usage.input_tokens;
  return {
    episodes: new Set(of<{ episode_id: string }>('episode.started').map(({ episode_id: id }) => id)).size,
    calls: calls.map(({ agent_id, usage }) => [
      agent_id ?? null,
      usage.input_tokens - first,
      usage.output_tokens - 3 * (usage.input_tokens - 10),
    ]),
    text: calls.find(({ agent_id }) => agent_id === 'writer')?.choices[0]?.content,
    tools: of<{ agent_id?: string; name: string; arguments: object; tool_call_id: string }>('tool.called')
      .sort((a, b) => (JSON.stringify(a.arguments) < JSON.stringify(b.arguments) ? -1 : 1))
      .filter(({ name }) => name.endsWith('look_up'))
      .map((tool) => [tool.agent_id ?? null, tool.name, tool.arguments, results.get(tool.tool_call_id)]),
  };
}

const CITIES = ['Bern', 'Rome'].map((city) => ['planner', 'look_up', { city }, `${city} is far`]);
const PEERS = ['planner', 'planner', 'writer'];

describe('A team as a client sent it', () => {
  it.each([
    ['langgraph-openinference', PEERS],
    ['langgraph-openllmetry', PEERS],
    ['openai-agents-openinference', PEERS],
  ])('%s: each call with its agent and what was billed, each tool call with its result', (name, agents) => {
    const team = teamIn(recorded(name));
    expect(team.episodes).toBe(1);
    expect(team.calls).toEqual(agents.map((agent, i) => [agent, i, 0]));
    expect(team.tools).toEqual(CITIES);
    expect(JSON.stringify(team.text)).toContain('Bern and Rome are far.');
    expect(JSON.stringify(team.text).match(/Bern and Rome are far/g)).toHaveLength(1);
  });

  it('crewai: a tool that the framework names otherwise is the tool that the model called', () => {
    const drafts = recorded('crewai');
    const named = drafts
      .filter(({ name }) => name === 'tool.called')
      .map(({ data }) => (data as { name: string }).name);
    expect(named.sort()).toEqual(['delegate_work_to_coworker', 'look_up', 'look_up']);
  });

  it('google-adk: the span that repeats tools that ran at once is no tool', () => {
    const names = recorded('google-adk')
      .filter(({ name }) => name === 'tool.called')
      .map(({ data }) => (data as { name: string }).name);
    expect(names.sort()).toEqual(['look_up', 'look_up', 'transfer_to_agent']);
  });

  it('litellm-proxy: tool calls that stand beside the message are calls of one answer, and acompletion is a call', () => {
    const { episodes, calls, tools, text } = teamIn(recorded('litellm-proxy'));
    expect(episodes).toBe(1);
    expect(calls).toEqual(PEERS.map((agent, i) => [agent, i, 0]));
    expect(tools).toEqual(CITIES);
    expect(JSON.stringify(text)).toContain('Bern and Rome are far.');
  });

  it('smolagents: an agent without a name of its own takes that of its span, without `.run`', () => {
    const { calls } = teamIn(recorded('smolagents'));
    expect(calls).toEqual(['planner', 'planner', 'writer', 'planner'].map((agent, i) => [agent, i, 0]));
  });

  it('strands: what it says in events and in blocks of the Converse API is text, calls of tools and their results', () => {
    const drafts = recorded('strands');
    const { calls, tools, text } = teamIn(drafts);
    expect(calls).toEqual(['planner', 'planner', 'writer', 'planner'].map((agent, i) => [agent, i, 0]));
    expect(tools).toEqual(CITIES);
    expect(text).toBe('Bern and Rome are far.');
    const asked = drafts.filter(({ name }) => name === 'generation.requested').map(({ data }) => data);
    expect(asked).toContainEqual(
      expect.objectContaining({
        input: expect.arrayContaining([
          expect.objectContaining({ role: 'system', content: 'plan' }),
          expect.objectContaining({
            role: 'tool',
            content: ['Bern', 'Rome'].map((city, i) =>
              expect.objectContaining({ type: 'tool_call_response', id: `call_1_${i}`, response: `${city} is far` }),
            ),
          }),
        ]),
      }),
    );
  });

  it('anthropic-openinference: a streamed call with two spans beside each other counts once', () => {
    const { calls, tools } = teamIn(recorded('anthropic-openinference'));
    expect(calls).toEqual(PEERS.map((agent, i) => [agent, i, 0]));
    expect(tools).toEqual(CITIES);
  });

  it('autogen: traces whose resource names one episode are that episode, those of messages alone are none', () => {
    const together = teamIn(recorded('autogen'));
    expect(together.episodes).toBe(1);
    expect(together.calls).toEqual(PEERS.map((agent, i) => [agent, i, 0]));
    const apart = recorded('autogen', (line) => line.replace('troupe.episode_id', 'other'));
    const begun = apart
      .filter(({ name }) => name === 'episode.started')
      .map(({ data }) => data as { episode_id: string });
    const called = apart
      .filter(({ name }) => name === 'generation.completed')
      .map(({ data }) => data as { episode_id: string });
    expect(new Set(begun.map((one) => one.episode_id))).toEqual(new Set(called.map((one) => one.episode_id)));
    expect(begun).toHaveLength(2);
  });

  it('autogen: traces of one team without a name of their own are episodes of one session, those of another team of another', () => {
    const sessions = (change: (line: string) => string) =>
      recorded('autogen', change).flatMap(({ name, data }) =>
        name === 'episode.started' ? [(data as { session_id?: string }).session_id] : [],
      );
    const team = '2e9a811a-696a-4fe8-8ae8-23a18d17a73b';
    const bare = (line: string): string => line.replace('troupe.episode_id', 'other');
    expect(sessions(bare)).toEqual([team, team]);
    const other = team.replace('2e9a', '3f0b');
    expect(sessions((line) => bare(line).replaceAll(team, other))).toEqual([other, other]);
    const core = (line: string): string => bare(line).replaceAll(`_${team}/${team}`, '/default');
    expect(sessions(core)).toEqual([undefined, undefined]);
  });

  it('autogen: traces whose spans name one episode each are those episodes, also of one program at once', () => {
    const named = (run: string) => (line: string) => {
      const item = JSON.parse(line.replace('troupe.episode_id', 'other')) as { span: { attributes?: unknown[] } };
      const episode = { key: 'troupe.episode_id', value: { stringValue: run } };
      return JSON.stringify({
        ...item,
        span: { ...item.span, attributes: [...(item.span.attributes ?? []), episode] },
      });
    };
    for (const run of ['run-1', 'run-2']) {
      const drafts = recorded('autogen', named(run));
      expect(teamIn(drafts).episodes).toBe(1);
      expect(teamIn(drafts).calls).toEqual(PEERS.map((agent, i) => [agent, i, 0]));
      expect(new Set(drafts.map(({ data }) => (data as { episode_id?: string }).episode_id))).toContain(run);
    }
  });

  it('is the same in any order', () => {
    for (const name of ['langgraph-openinference', 'langgraph-openllmetry']) {
      const lines = readFileSync(join(FOLDER, `${name}.jsonl`), 'utf8')
        .trimEnd()
        .split('\n');
      const items = lines.map((line) => ({ format: 'otlp', item: JSON.parse(line) }));
      expect(eventsOfTrace([...items].reverse())).toEqual(eventsOfTrace(items));
    }
  });
});

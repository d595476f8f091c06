/** Published files, read from the folder that TROUPE_DATA names. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { exportEpisodes } from '../../ingest/files/export.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { groupBy, memoryLog } from './support/memory-log.ts';

const root = process.env.TROUPE_DATA ?? '';
const importAll = async (...paths: string[]) => {
  const memory = memoryLog();
  const report = await importFiles(
    paths.map((path) => join(root, path)),
    memory,
  );
  return { memory, report };
};
const dataOf = (events: readonly Event[], name: string) =>
  events.filter((event) => event.name === name).map((event) => event.data as Record<string, unknown>);

describe.skipIf(!root)('published files (TROUPE_DATA names their folder)', () => {
  it('of tau-bench: 140 episodes, 35 tasks, 2023 calls, 1001 tool calls, rewards as the file has them', async () => {
    const { memory, report } = await importAll('data/tau-bench/gpt-4o-airline.json');
    expect(report).toMatchObject({
      format: 'tau-bench',
      episodes: 140,
      tasks: 35,
      agents: 1,
      calls: 2023,
      steps: 2023,
      tool_calls: 1001,
      feedback: 140,
      errors: [],
      events: { duplicates: 0, rejected: 0 },
    });
    const rewards = new Map(
      dataOf(memory.events, 'feedback.recorded').map((data) => [
        (data.target as { episode_id: string }).episode_id,
        data.value as number,
      ]),
    );
    expect([...rewards.values()].reduce((sum, reward) => sum + reward)).toBe(43);
    const groups = groupBy(dataOf(memory.events, 'episode.started'), (data) => data.group_id as string);
    expect(groups.size).toBe(35);
    const mixed = [...groups.values()].filter(
      (group) => new Set(group.map((data) => rewards.get(data.episode_id as string))).size > 1,
    );
    expect(mixed).toHaveLength(17);
    const identity = (data: Record<string, unknown>) => `${data.episode_id} ${data.tool_call_id}`;
    const called = new Set(dataOf(memory.events, 'tool.called').map(identity));
    const returned = new Set(dataOf(memory.events, 'tool.returned').map(identity));
    expect(called.size).toBe(1001);
    expect(returned).toEqual(called);
    // Counted in the file: results whose text begins with "Error:"; none of another text reports an error.
    const names = new Map(dataOf(memory.events, 'tool.called').map((data) => [identity(data), data.name as string]));
    const failed = dataOf(memory.events, 'tool.returned').filter(({ flags }) =>
      (flags as string[] | undefined)?.includes('apparent_error'),
    );
    expect(
      Object.fromEntries(
        [...groupBy(failed, (data) => names.get(identity(data))!)].map(([name, all]) => [name, all.length]),
      ),
    ).toEqual({
      update_reservation_flights: 42,
      book_reservation: 27,
      update_reservation_baggages: 1,
    });
  });

  it('of Who&When: 123 episodes, 102 tasks, 123 labels, 5 of them flagged', async () => {
    const { memory, report } = await importAll('data/who-and-when');
    expect(report).toMatchObject({
      format: 'who-when',
      files: 123,
      episodes: 123,
      tasks: 102,
      feedback: 123,
      errors: [],
    });
    const labels = dataOf(memory.events, 'feedback.recorded');
    expect(labels.filter((data) => (data.flags as string[] | undefined)?.includes('agent_mismatch'))).toHaveLength(5);
    const again = await importFiles([join(root, 'data/who-and-when')], memory);
    expect(again.events).toMatchObject({ accepted: 0, rejected: 0 });
  });

  it('of the samples: the counts that stand beside them', async () => {
    const expected = JSON.parse(await readFile(join(root, 'samples/expected.json'), 'utf8')).formats;
    for (const format of ['openai-chat', 'who-when']) {
      const { files, tasks, trajectories, agents, steps, tool_calls, scores, labels } = expected[format];
      const { report } = await importAll(...files.map((file: string) => `samples/${format}/${file}`));
      expect(report).toMatchObject({ tasks, episodes: trajectories, agents, calls: steps, tool_calls, errors: [] });
      expect(report.feedback).toBe(labels ?? scores);
    }
    const chat = await importAll('samples/openai-chat/chat.jsonl');
    expect([chat.report.episodes, chat.report.calls]).toEqual([
      expected['openai-chat'].chat_rows,
      expected['openai-chat'].chat_steps,
    ]);
  });

  it('that are bad: what is wrong is named and the rest kept', async () => {
    const chat = await importAll('samples/openai-chat/bad-chat.jsonl');
    expect(chat.report.errors.map(({ line, field }) => [line, field])).toEqual([
      [1, 'messages[0].tool_call_id'],
      [2, 'messages'],
      [3, ''],
    ]);
    expect(chat.report).toMatchObject({ episodes: 1, calls: 1 });
    const step = await importAll('samples/who-when/bad-step.json');
    expect(step.report).toMatchObject({ episodes: 1, calls: 4, feedback: 0, errors: [{ field: 'mistake_step' }] });
  });

  it('of chat rows and completion logs: native to events to native is equal as JSON', async () => {
    for (const file of ['chat.jsonl', 'completions.jsonl']) {
      const text = await readFile(join(root, 'samples/openai-chat', file), 'utf8');
      const native = text
        .trim()
        .split('\n')
        .map((line) => canonicalJson(JSON.parse(line)));
      const { memory } = await importAll(`samples/openai-chat/${file}`);
      const episodes = groupBy(
        memory.events.filter((event) => event.key.startsWith('e/')),
        (event) => event.key,
      );
      const written: string[] = [];
      for await (const line of exportEpisodes('openai-chat', episodes.values()))
        written.push(canonicalJson(JSON.parse(line)));
      expect(written.sort()).toEqual(native.sort());
    }
  });
});

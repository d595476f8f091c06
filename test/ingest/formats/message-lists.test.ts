/** Files that are the messages of a conversation and nothing around them. */

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { read } from './support/convert.ts';

async function imported(text: string) {
  const file = join(mkdtempSync(join(tmpdir(), 'troupe-lists-')), 'file');
  writeFileSync(file, text);
  const memory = memoryLog();
  const { format, episodes, calls, tool_calls: tools, errors } = await importFiles([file], memory);
  return { counts: [format, episodes, calls, tools], errors, events: memory.events };
}

const asked = { role: 'user', content: 'When does the ferry go?' };
const answer = { role: 'assistant', content: 'At 09:40.' };
const call = { type: 'function_call', call_id: 'c1', name: 'plan', arguments: '{}' };

describe('A bare list of messages', () => {
  it('is one conversation in an array and on the lines of a file', async () => {
    expect((await imported(JSON.stringify([asked, answer]))).counts).toEqual(['chat-messages', 1, 1, 0]);
    expect((await imported(`${JSON.stringify(asked)}\n${JSON.stringify(answer)}\n`)).counts).toEqual([
      'chat-messages',
      1,
      1,
      0,
    ]);
  });

  it('is one conversation on each line that holds a list', async () => {
    const line = JSON.stringify([asked, answer]);
    expect((await imported(`${line}\n${line}\n`)).counts).toEqual(['chat-messages', 2, 2, 0]);
    expect((await imported(`[${line},\n${line}]`)).counts).toEqual(['chat-messages', 2, 2, 0]);
  });

  it('names the member who wrote a message by its name', async () => {
    const { events } = await imported(JSON.stringify([asked, { ...answer, name: 'clerk' }]));
    expect(events.find(({ name }) => name === 'generation.completed')!.data).toMatchObject({ agent_id: 'clerk' });
  });

  it('is refused by the place of a result that answers no call', async () => {
    const { errors } = await imported(JSON.stringify([asked, { role: 'tool', tool_call_id: 'c', content: '2' }]));
    expect(errors).toMatchObject([{ code: 'bad_reference', got: '"c"' }]);
  });
});

describe('Items of the Responses API', () => {
  it('are one answer up to the next output of a tool, and parallel calls are in one answer', async () => {
    const items = [
      asked,
      call,
      { ...call, call_id: 'c2' },
      { type: 'function_call_output', call_id: 'c1', output: 'x' },
    ];
    const text = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'At 09:40.' }] };
    expect((await imported(JSON.stringify([...items, text]))).counts).toEqual(['openai-responses', 1, 2, 2]);
  });
});

describe('Messages of Pydantic AI', () => {
  it('mark the result that a tool refused as an error, and keep a retry of the answer as a message', async () => {
    const parts = (...list: object[]) => list;
    const { counts, events } = await imported(
      JSON.stringify([
        {
          kind: 'request',
          instructions: 'Be brief.',
          parts: parts({ part_kind: 'user-prompt', content: ['q', { kind: 'image-url', url: 'u' }] }),
        },
        {
          kind: 'response',
          parts: parts({ part_kind: 'tool-call', tool_name: 'plan', args: '{"a":1}', tool_call_id: 'c1' }),
        },
        {
          kind: 'request',
          instructions: 'Be brief.',
          parts: parts({ part_kind: 'retry-prompt', tool_name: 'plan', content: 'no', tool_call_id: 'c1' }),
        },
        { kind: 'response', parts: parts({ part_kind: 'text', content: 'a' }) },
        { kind: 'request', parts: parts({ part_kind: 'retry-prompt', content: 'Answer in JSON.' }) },
        { kind: 'response', parts: parts({ part_kind: 'text', content: '{}' }), finish_reason: 'length' },
      ]),
    );
    expect(counts).toEqual(['pydantic-ai', 1, 3, 1]);
    const data = (name: string) => events.filter((event) => event.name === name).map((event) => event.data);
    expect(data('tool.returned')).toMatchObject([{ status: 'error', output: 'no' }]);
    expect(
      data('message.sent').map((data) => ('role' in data ? [data.role, 'content' in data ? data.content : null] : [])),
    ).toEqual([
      ['system', 'Be brief.'],
      [
        'user',
        [
          { type: 'text', content: 'q' },
          { type: 'image-url', content: { kind: 'image-url', url: 'u' } },
        ],
      ],
      ['user', 'Answer in JSON.'],
    ]);
    expect(data('generation.completed').at(-1)).toMatchObject({ choices: [{ finish_reason: 'length' }] });
  });
});

describe('Rollouts of NeMo Gym', () => {
  const tokens = (prompt: readonly number[], ids: readonly number[], logprobs: readonly number[]) => ({
    ...{ prompt_token_ids: prompt, generation_token_ids: ids, generation_log_probs: logprobs },
  });
  const said = (text: string, more: object = {}) => ({
    ...{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] },
    ...more,
  });
  const rollout = (...output: readonly object[]) =>
    read('nemo-gym', { responses_create_params: { input: [asked] }, response: { output }, reward: 1 });

  it('keep the tokens of each answer, where the last item of the answer holds them', () => {
    const { of, refused } = rollout(
      { ...call, ...tokens([1, 2], [3, 4], [-0.5, -0.25]) },
      { type: 'function_call_output', call_id: 'c1', output: 'x' },
      said('a', tokens([1, 2, 3, 4, 5], [6], [-1])),
      said('b', tokens([1, 2, 3, 4, 5, 6], [7], [-1])),
    );
    expect(refused).toEqual([]);
    expect(of('generation.completed')).toMatchObject([
      {
        prompt_token_ids: [1, 2],
        choices: [{ token_ids: [3, 4], logprobs: [-0.5, -0.25] }],
        usage: { output_tokens: 2 },
      },
      { prompt_token_ids: [1, 2, 3, 4, 5], choices: [{ token_ids: [6] }] },
      { choices: [{ content: 'b', token_ids: [7] }] },
    ]);
    expect(of('episode.started')[0]!.flags).toEqual([]);
  });

  it('keep no log-probabilities that are not those of the tokens, and say where there are no tokens', () => {
    expect(rollout(said('a', tokens([1], [2, 3], [-1]))).of('generation.completed')).toMatchObject([
      { flags: ['logprobs_mismatch'], choices: [{ token_ids: [2, 3] }] },
    ]);
    expect(rollout(said('a'), said('b')).of('generation.completed').length).toBe(1);
    expect(rollout(said('a')).of('episode.started')[0]!.flags).toEqual(['no_token_ids']);
  });
});

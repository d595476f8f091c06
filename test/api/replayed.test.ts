/** What a replay makes of requests, and recorded answers of model servers as streams. */
import { describe, expect, it } from 'vitest';
import { messagesStream } from '../../api/gateway/dialects/messages-answer.ts';
import { responsesStream } from '../../api/gateway/dialects/responses-answer.ts';
import { chatStream, type StreamOf, streamText } from '../../api/gateway/events.ts';
import { plainRequest } from '../../api/gateway/replay/replayed-answer.ts';
import { differenceOf, instructed, reseeded, withoutText } from '../../api/gateway/replay/replayed-request.ts';
import { captureAnswer, readAnswer } from '../../api/gateway/upstream/capture.ts';
import type { Kind } from '../../api/gateway/upstream/kind.ts';
import { whyUnreadable } from '../../store/loop/play/source.ts';

describe('a recorded answer of a model server, streamed', () => {
  const streamed = async (kind: Kind, streamOf: StreamOf, body: Readonly<Record<string, unknown>>) => {
    const request = plainRequest(kind, { model: 'm', stream: true, stream_options: { include_usage: true } });
    const capture = captureAnswer(kind, { 'content-type': 'text/event-stream' }, 1e6, () => 0);
    capture.add(Buffer.from(streamText(streamOf(body, request).end(body))));
    return (await readAnswer(capture.taken(), 1e6)).response;
  };

  it('of chat completions is whole again, thoughts and tool calls included', async () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"word":"seven"}' } };
    const message = { role: 'assistant', content: 'Let me see.', reasoning_content: 'A number.', tool_calls: [call] };
    const body = {
      ...{ id: 'c', object: 'chat.completion', created: 1, model: 'm' },
      choices: [{ index: 0, message, logprobs: null, finish_reason: 'tool_calls' }],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    };
    expect(await streamed('chat', chatStream, body)).toMatchObject({
      choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
      usage: body.usage,
    });
  });

  it('of Messages is whole again, thoughts with their signatures and blocks of other types included', async () => {
    const content = [
      { type: 'thinking', thinking: 'A number.', signature: 'signed' },
      { type: 'redacted_thinking', data: 'xyz' },
      { type: 'text', text: 'Seven.' },
      { type: 'tool_use', id: 'toolu_1', name: 'look_up', input: { word: 'seven' } },
    ];
    const body = {
      ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content },
      ...{ stop_reason: 'tool_use', stop_sequence: null, usage: { input_tokens: 3, output_tokens: 4 } },
    };
    expect(await streamed('messages', messagesStream, body)).toMatchObject(body);
  });

  it('of Responses is whole again, with items that no policy has', async () => {
    const part = { type: 'output_text', text: 'Seven.', annotations: [] };
    const output = [
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'xyz' },
      { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [part] },
      { type: 'message', id: 'msg_2', role: 'assistant', status: 'completed', content: [part, { type: 'refusal' }] },
      { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look_up', arguments: '{}', status: 'completed' },
    ];
    const body = { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output, usage: {} };
    expect(await streamed('responses', responsesStream, body)).toEqual(body);
  });
});

describe('a request of a replay', () => {
  it('gets an instruction at the end of the last message of the user, or as one more', () => {
    const user = (content: string) => ({ role: 'user', content });
    expect(instructed({ messages: [user('a'), user('b')] }, 'X')).toEqual({ messages: [user('a'), user('b\n\nX')] });
    const tool = { role: 'tool', tool_call_id: 't', content: '7' };
    expect(instructed({ messages: [user('a'), tool] }, 'X')).toEqual({ messages: [user('a'), tool, user('X')] });
    expect(instructed({ input: 'a' }, 'X')).toEqual({ input: 'a\n\nX' });
    expect(instructed({ prompt: 'a' }, 'X')).toEqual({ prompt: 'a\n\nX' });
  });

  it('loses a text wherever a message holds it, and a message that was nothing else', () => {
    const messages = [
      { role: 'user', content: 'Question?' },
      { role: 'assistant', content: 'My answer.' },
      { role: 'user', content: [{ type: 'text', text: 'He said: My answer. Go on.' }] },
    ];
    expect(withoutText({ model: 'm', messages }, 'My answer.\n')).toEqual({
      removed: true,
      body: {
        model: 'm',
        messages: [messages[0], { role: 'user', content: [{ type: 'text', text: 'He said:  Go on.' }] }],
      },
    });
    // A word that is a message of its own stands in another by chance.
    const [question, word] = ['larger of 3 and 7', '3'].map((content) => ({ role: 'user', content }));
    expect(withoutText({ messages: [question, word] }, '3')).toEqual({ removed: true, body: { messages: [question] } });
    const same = { input: 'Question?' };
    expect(withoutText(same, 'My answer.')).toEqual({ removed: false, body: same });
    expect(withoutText(same, '')).toEqual({ removed: false, body: same });
  });

  it('draws by another seed in each sample, and by none where it names none', () => {
    const seeds = [0, 1, 2].map((sample) => reseeded({ seed: 7 }, sample).seed);
    expect(new Set([7, ...seeds]).size).toBe(4);
    expect(reseeded({ seed: 7 }, 1)).toEqual({ seed: seeds[1] });
    expect(reseeded({ model: 'm' }, 1)).toEqual({ model: 'm' });
  });

  it('is compared message by message, and the first difference is shown around its place', () => {
    const userMessage = (content: string) => ({ role: 'user', content });
    expect(differenceOf([userMessage('a')], [userMessage('a')])).toBe(null);
    expect(differenceOf([userMessage('a'), userMessage('b')], [userMessage('a')])).toBe(
      'message 1 is missing: {"role":"user","content":"b"}',
    );
    expect(differenceOf([], [userMessage('a')])).toBe('message 0 was not there: {"role":"user","content":"a"}');
    expect(differenceOf([userMessage('x at 10:00')], [userMessage('x at 11:30')])).toBe(
      'message 0 was …r","content":"x at 10:00"} and is …r","content":"x at 11:30"}',
    );
  });
});

it('a record is not answered from where it is not whole', () => {
  const requested = { model: 'm', input: [] };
  const choices = [{ index: 0, content: 'answer' }];
  const why = (completed: object) => whyUnreadable({ requested, completed: { call_id: 'c', choices, ...completed } });
  expect(why({})).toBe(null);
  expect(whyUnreadable(undefined)).toMatch('the gateway did not record it');
  expect(why({ redactions: { 'openai-key': 1 } })).toBe('a secret was taken out of its answer');
  expect(why({ choices: [{ index: 0, content: '[erased]' }] })).toBe('its text was erased');
  expect(why({ flags: ['cut_answer'] })).toBe('its answer was recorded in part');
  expect(why({ unmapped: { upstream: 'main' } })).toBe('its raw record was not stored');
  expect(why({ unmapped: { upstream: 'main' }, raw: { artifact_id: 'a' } })).toBe(null);
});

/**
 * The rule of training text: what a row teaches, prompt and answer, is what the chat template writes for the conversation and what a policy is
 * served, however the conversation was recorded.
 */
import { describe, expect, it } from 'vitest';
import { readMessagesRequest } from '../../api/gateway/dialects/messages-request.ts';
import { readResponsesRequest } from '../../api/gateway/dialects/responses-request.ts';
import { promptOf, readChatRequest } from '../../api/gateway/request.ts';
import { supervisedLine } from '../../trainer/learn/data/training-files.ts';
import { answerRow, type StepRow, supervisedRow, type TokenRow } from '../../trainer/learn/data/training-rows.ts';
import type { OpenModel } from '../../trainer/model/model-directory.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import type { PromptAsk } from '../../trainer/sample/infer-wire.ts';
import { anyConversations } from './any-conversation.ts';
import { TEMPLATES } from './chat-templates.ts';
import { modelWith, recorded, recordedStep } from './training-text.ts';

type Conversation = { readonly messages: readonly ChatMessage[]; readonly tools?: readonly object[] };

const weather = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};
const call = (id: string, city: string) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: `{"city": "${city}"}` },
});
const user = (content: unknown): ChatMessage => ({ role: 'user', content });
const says = (content: string | null, more: object = {}): ChatMessage => ({ role: 'assistant', content, ...more });

const CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  'a question': { messages: [user('Rome?'), says('Sun.')] },
  'several turns': {
    messages: [
      { role: 'system', content: 'Be brief.' },
      user(' Rome? '),
      says('Sun.'),
      user('Oslo?'),
      says('\nRain. '),
    ],
  },
  'instructions of a developer, and texts in parts': {
    messages: [
      { role: 'developer', content: 'Be brief.' },
      user([
        { type: 'text', text: 'Rome' },
        { type: 'text', text: 'today?' },
      ]),
      says('Sun.'),
    ],
  },
  'characters that the database cannot hold': { messages: [user('a\u0000b \ufffe'), says('c\u0000 😀 é')] },
  'one call and its result': {
    messages: [
      user('Rome?'),
      says(null, { tool_calls: [call('abcde0001', 'Rome')] }),
      { role: 'tool', tool_call_id: 'abcde0001', content: 'sun' },
      says('Sun.'),
    ],
    tools: [weather],
  },
  'text beside two calls': {
    messages: [
      { role: 'system', content: 'Be brief.' },
      user('Rome, Oslo?'),
      says('I look.', { tool_calls: [call('abcde0001', 'Rome'), call('abcde0002', 'Oslo')] }),
      { role: 'tool', tool_call_id: 'abcde0001', content: 'sun' },
      { role: 'tool', tool_call_id: 'abcde0002', content: 'rain' },
      says('Sun, rain.'),
      user('And Bonn?'),
      says('No idea.'),
    ],
    tools: [weather],
  },
  'thoughts, as vLLM names them and as others do': {
    messages: [
      user('Rome?'),
      says('Sun.', { reasoning: 'It is noon.', reasoning_content: null }),
      user('Oslo?'),
      says('Rain.', { reasoning_content: 'Autumn.' }),
    ],
  },
  'members that are null, and calls without content': {
    messages: [
      { role: 'user', content: 'Rome?', name: null },
      { role: 'assistant', content: '', reasoning_content: null, tool_calls: [call('abcde0001', 'Rome')] },
      { role: 'tool', tool_call_id: 'abcde0001', content: 'sun' },
      { role: 'assistant', content: 'Sun.', refusal: null, tool_calls: null },
    ],
    tools: [weather],
  },
};

const MADE_UP = Object.fromEntries(
  anyConversations(Number(process.env.TROUPE_FUZZ_RUNS ?? 5)).map(
    ({ messages, hasTools }, i): [string, Conversation] => [
      `made-up conversation ${i}`,
      { messages, ...(hasTools ? { tools: [weather] } : {}) },
    ],
  ),
);

const step = (asked: readonly ChatMessage[], answer: ChatMessage, tools?: Conversation['tools']): StepRow =>
  recordedStep(asked.map(recorded), recorded(answer).content, tools);

/** The ways in which a conversation can come to a row that teaches its last message. */
function rowsOf(
  messages: readonly ChatMessage[],
  tools: Conversation['tools'],
  model: OpenModel,
): Record<string, () => TokenRow> {
  const [asked, answer] = [messages.slice(0, -1), messages.at(-1)!];
  const offered = tools ? { tools } : {};
  const weighed = asked.map((one) => (one.role === 'assistant' ? { ...one, weight: 0 } : one));
  return {
    'a file of chats': () => supervisedLine({ messages: [...weighed, answer], ...offered }, model),
    'a chat that goes on': () => supervisedLine({ messages: [...weighed, answer, user('More?')], ...offered }, model),
    'a prompt with its completion': () => supervisedLine({ prompt: asked, completion: [answer], ...offered }, model),
    'a recorded call': () =>
      supervisedLine({ request: { messages: asked, ...offered }, response: { choices: [{ message: answer }] } }, model),
    'a step of a dataset': () => supervisedRow(step(asked, answer, tools), model),
  };
}

const SERVED: Readonly<
  Record<string, (asked: readonly ChatMessage[], tools: object[] | undefined) => Promise<PromptAsk> | PromptAsk>
> = {
  chat: (messages, tools) =>
    promptOf(readChatRequest({ model: 'policy:p', messages, ...(tools ? { tools } : {}) }).prompt),
  messages: async (asked, tools) => {
    const texts = (content: unknown) => (content === '' ? null : content);
    const [first, ...rest] = asked;
    const led = first?.role === 'system' || first?.role === 'developer';
    const messages = (led ? rest : asked).map((one) => {
      if (one.role === 'tool')
        return {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: one.tool_call_id, content: one.content }],
        };
      if (!Array.isArray(one.tool_calls)) return { role: one.role, content: one.content };
      const said = texts(one.content) === null ? [] : [{ type: 'text', text: one.content }];
      const uses = (one.tool_calls as { id: string; function: { name: string; arguments: string } }[]).map((each) => ({
        ...{ type: 'tool_use', id: each.id, name: each.function.name, input: JSON.parse(each.function.arguments) },
      }));
      return { role: 'assistant', content: [...said, ...uses] };
    });
    const flat = tools?.map((tool) => {
      const { name, description, parameters } = (tool as typeof weather).function;
      return { name, description, input_schema: parameters };
    });
    const body = {
      model: 'policy:p',
      max_tokens: 9,
      messages,
      ...(led ? { system: first!.content } : {}),
      ...(flat ? { tools: flat } : {}),
    };
    return promptOf(readMessagesRequest(body).prompt);
  },
  responses: async (asked, tools) => {
    const input = asked.flatMap((one): object[] => {
      if (one.role === 'tool')
        return [{ type: 'function_call_output', call_id: one.tool_call_id, output: one.content }];
      const calls = Array.isArray(one.tool_calls) ? (one.tool_calls as { id: string; function: object }[]) : [];
      const parts = Array.isArray(one.content)
        ? one.content.map((part) => ({ ...part, type: 'input_text' }))
        : one.content;
      return [
        ...(one.content || calls.length === 0 ? [{ type: 'message', role: one.role, content: parts }] : []),
        ...calls.map((each) => ({ type: 'function_call', call_id: each.id, ...each.function })),
      ];
    });
    const flat = tools?.map((tool) => ({ type: 'function', ...(tool as typeof weather).function }));
    const request = await readResponsesRequest(
      { model: 'policy:p', input, ...(flat ? { tools: flat } : {}) },
      async () => [],
    );
    return promptOf(request.prompt);
  },
};

const attempt = <Value>(work: () => Value): Value | null => {
  try {
    return work();
  } catch {
    return null;
  }
};

describe.each(TEMPLATES.map((template) => [template.name, template] as const))(
  'with the template of %s',
  (_, named) => {
    const model = modelWith(named);
    const template = model.template!;
    const { tokenizer } = model;

    it('an answer ends with the token that the template ends a turn with', () => {
      expect(tokenizer.token(template.turnEnd!)).toBe(named.end);
      const row = supervisedLine({ prompt: 'Rome?', completion: 'Sun.' }, model);
      expect(row.tokenIds.at(-1)).toBe(template.turnEnd);
    });

    it.each(Object.entries({ ...CONVERSATIONS, ...MADE_UP }))(
      '%s is learnt as the template writes it and as it is served',
      async (_, { messages, tools }) => {
        const offered = tools ? { tools } : {};
        for (const [i, answer] of messages.entries()) {
          const isTaught = answer.role === 'assistant' && (answer.tool_calls != null || i === messages.length - 1);
          if (!isTaught) continue;
          const taught = messages.slice(0, i + 1);
          const asked = messages.slice(0, i);
          const ways = Object.entries(rowsOf(taught, tools, model));
          const prompt = attempt(() => template.render(asked, { ...offered, addGenerationPrompt: true }));
          const whole = attempt(() => template.render(taught, offered));
          const isLost = answer.tool_calls != null && named.without?.includes('calls');
          if (whole === null || prompt === null || isLost) {
            expect(named.without).toBeDefined();
            for (const [way, make] of ways) expect(make, way).toThrow();
            continue;
          }
          const promptIds = tokenizer.encode(prompt);
          const said = tokenizer.decode(tokenizer.encode(whole));
          for (const [way, make] of ways) {
            const row = make();
            expect(row.promptIds, way).toEqual(promptIds);
            expect(tokenizer.decode([...row.promptIds, ...row.tokenIds]), way).toBe(said);
            expect(row.trained.every(Boolean), way).toBe(true);
            expect(row.tokenIds, way).toContain(template.turnEnd);
          }
          const hasThoughts = asked.some((one) => one.reasoning !== undefined || one.reasoning_content !== undefined);
          for (const [dialect, request] of Object.entries(SERVED)) {
            // The other two have no place for a thought in a history.
            if (hasThoughts && dialect !== 'chat') continue;
            const ask = await request(asked, tools as object[] | undefined);
            const shown = template.promptIds(ask.messages as ChatMessage[], {
              addGenerationPrompt: true,
              ...given(ask.tools),
            });
            expect(tokenizer.decode(shown), dialect).toBe(tokenizer.decode(promptIds));
            expect(shown, dialect).toEqual(promptIds);
          }
        }
      },
    );

    it('all candidates of a call are learnt behind one prompt', () => {
      const asked = [user('Rome?')];
      const [sun, rain] = ['Sun.', 'Rain.'].map((text) => supervisedRow(step(asked, says(text)), model));
      expect(sun!.promptIds).toEqual(rain!.promptIds);
      expect(tokenizer.decode(rain!.tokenIds)).toBe(tokenizer.decode(sun!.tokenIds).replace('Sun.', 'Rain.'));
    });

    it('half an answer is learnt without an end, and nothing stands behind it', () => {
      const asked = [user('Rome?')];
      const cut = supervisedRow({ ...step(asked, says('Sun and')), cut: true }, model);
      const whole = supervisedRow(step(asked, says('Sun and')), model);
      expect(cut.promptIds).toEqual(whole.promptIds);
      expect(tokenizer.decode(cut.tokenIds).endsWith('Sun and')).toBe(true);
      expect(tokenizer.decode(whole.tokenIds).startsWith(tokenizer.decode(cut.tokenIds))).toBe(true);
      expect(cut.tokenIds).not.toContain(template.turnEnd);
    });
  },
);

const given = (tools: unknown) => (Array.isArray(tools) ? { tools } : {});

describe('a template that writes an empty thought before each answer', () => {
  const model = modelWith(TEMPLATES.find(({ name }) => name === 'Qwen3')!);
  const learnt = ({ tokenIds }: TokenRow) => model.tokenizer.decode(tokenIds);

  it('gives all answers of a conversation one form, calls and texts', () => {
    const { messages, tools } = CONVERSATIONS['one call and its result']!;
    const texts = [2, 4].map((end) =>
      learnt(supervisedRow(step(messages.slice(0, end - 1), messages[end - 1]!, tools), model)),
    );
    for (const text of texts) expect(text.startsWith('<think>\n\n</think>\n\n')).toBe(true);
    expect(texts[1]).toBe('<think>\n\n</think>\n\nSun.<|im_end|>\n');
    expect(model.template!.answerForm).toBe('<think>\n\n</think>\n\n…<|im_end|>\n');
  });

  it('refuses to learn several turns that it writes otherwise once others follow', () => {
    const { messages } = CONVERSATIONS['thoughts, as vLLM names them and as others do']!;
    expect(() => supervisedLine({ messages }, model)).toThrow(/differently/);
  });
});

describe('what a template does not write', () => {
  const quiet = TEMPLATES.find(({ name }) => name === 'Gemma')!;

  it('is not learnt as an empty answer: calls of tools are refused', () => {
    const model = modelWith({
      ...quiet,
      source: "{% for m in messages %}{{ m.role }}: {{ m.content or '' }}<eos>{% endfor %}",
    });
    const asked = [user('Rome?'), says(null, { tool_calls: [call('abcde0001', 'Rome')] })];
    expect(() => answerRow(asked, model.template!)).toThrow(/calls tools, which the chat template does not write/);
  });

  it('is refused where it would be written as a list: parts that are no text', () => {
    const model = modelWith(TEMPLATES.find(({ name }) => name === 'Zephyr')!);
    const asked = [user([{ type: 'image_url', image_url: { url: 'x' } }]), says('A cat.')];
    expect(() => answerRow(asked, model.template!)).toThrow(/a part of a content should be text/);
  });

  it('one BOS begins a conversation, though the tokenizer adds it to texts too', () => {
    const model = modelWith(TEMPLATES.find(({ name }) => name === 'Mistral')!);
    const bos = model.tokenizer.bos!;
    expect(answerRow([user('Rome?'), says('Sun.')], model.template!).promptIds.filter((id) => id === bos)).toHaveLength(
      1,
    );
  });
});

/**
 * Chat templates in the manner of those that published models have: how turns begin and end, where tools, calls, results and thoughts stand,
 * what is trimmed, which roles are refused. The words between are our own.
 */

export type NamedTemplate = {
  readonly name: string;
  readonly source: string;
  readonly bos: string | null;
  readonly eos: string;
  /** The token that ends a turn of the assistant. */
  readonly end: string;
  /** What it does not write, so that an answer that has it is refused. */
  readonly without?: readonly ('calls' | 'two calls')[];
};

const CHATML_TURN = "{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}";
const TAGGED_CALLS =
  "{% for c in m.tool_calls or [] %}{{ '\\n' if m.content or not loop.first else '' }}{{ '<tool_call>\\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}";
const TAGGED_RESULT =
  "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}";
const TOOLS_IN_SYSTEM =
  "{% if tools %}{{ '<|im_start|>system\\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}{{ '<tools>' }}{% for t in tools %}{{ '\\n' + (t | tojson) }}{% endfor %}{{ '\\n</tools><|im_end|>\\n' }}{% elif messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}";
const IM_ASKS = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const IM = { bos: null, eos: '<|im_end|>', end: '<|im_end|>' } as const;

const qwen25 = `${TOOLS_IN_SYSTEM}{% for m in messages %}{% if m.role == 'system' and loop.first %}{% elif m.role == 'tool' %}${TAGGED_RESULT}{% elif m.role == 'assistant' and m.tool_calls %}{{ '<|im_start|>assistant' }}{% if m.content %}{{ '\\n' + m.content }}{% endif %}{% for c in m.tool_calls %}{{ '\\n<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% else %}${CHATML_TURN}{% endif %}{% endfor %}${IM_ASKS}`;

const qwen3 = `${TOOLS_IN_SYSTEM}{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if m.role == 'system' and loop.first %}{% elif m.role == 'tool' %}${TAGGED_RESULT}{% elif m.role == 'assistant' %}{% set content = m.content if m.content is string else '' %}{% set thought = m.reasoning_content if m.reasoning_content is string else '' %}{% if not thought and '</think>' in content %}{% set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ '<|im_start|>assistant\\n' }}{% if loop.index0 > ns.last and (loop.last or thought) %}{{ '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}{% endif %}{{ content }}{% for c in m.tool_calls or [] %}{{ '\\n' if content or not loop.first else '' }}{{ '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% else %}${CHATML_TURN}{% endif %}{% endfor %}${IM_ASKS}`;

const hermes = `${TOOLS_IN_SYSTEM}{% for m in messages %}{% if m.role == 'system' and loop.first %}{% elif m.role == 'tool' %}{{ '<|im_start|>tool\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}{% elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' + (m.content or '') }}${TAGGED_CALLS}{{ '<|im_end|>\\n' }}{% else %}${CHATML_TURN}{% endif %}{% endfor %}${IM_ASKS}`;

const chatml = `{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}${IM_ASKS}`;

const llama3 = `{{ bos_token }}{% if messages[0].role == 'system' %}{% set said = messages[0].content | trim %}{% set rest = messages[1:] %}{% else %}{% set said = '' %}{% set rest = messages %}{% endif %}{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' + said + '<|eot_id|>' }}{% for m in rest %}{% if tools and loop.first and m.role == 'user' %}{{ '<|start_header_id|>user<|end_header_id|>\\n\\nFunctions, called as {"name": its name, "parameters": dictionary of arguments}:\\n' }}{% for t in tools %}{{ (t | tojson(indent=4)) + '\\n\\n' }}{% endfor %}{{ (m.content | trim) + '<|eot_id|>' }}{% elif 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}{% set f = m.tool_calls[0].function %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + f.name + '", "parameters": ' + (f.arguments | tojson) + '}<|eot_id|>' }}{% elif m.role == 'tool' %}{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (m.content if m.content is string else m.content | tojson) + '<|eot_id|>' }}{% else %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content | trim) + '<|eot_id|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}`;

const mistral = `{{ bos_token }}{% if messages[0].role == 'system' %}{% set said = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if m.role == 'user' %}{% if tools and m == (rest | selectattr('role', 'equalto', 'user') | list | last) %}{{ '[AVAILABLE_TOOLS] ' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}{% if loop.first and said is defined %}{{ '[INST] ' + said + '\\n\\n' + m.content + '[/INST]' }}{% else %}{{ '[INST] ' + m.content + '[/INST]' }}{% endif %}{% elif m.tool_calls is defined and m.tool_calls is not none %}{{ '[TOOL_CALLS] [' }}{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('ids of calls have nine characters') }}{% endif %}{{ '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + ', "id": "' + c.id + '"}' }}{{ ', ' if not loop.last else ']' + eos_token }}{% endfor %}{% elif m.role == 'assistant' %}{{ ' ' + (m.content | trim) + eos_token }}{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS] {"content": ' + (m.content | tojson) + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}{% endif %}{% endfor %}`;

const gemma = `{{ bos_token }}{% if messages[0].role == 'system' %}{% set led = messages[0].content + '\\n\\n' %}{% set rest = messages[1:] %}{% else %}{% set led = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('user and model take turns') }}{% endif %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + (led if loop.first else '') }}{% if m.content is string %}{{ m.content | trim }}{% else %}{% for part in m.content %}{{ part.text | trim }}{% endfor %}{% endif %}{{ '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}`;

const phi = `{% for m in messages %}{% if m.role == 'system' and tools %}{{ '<|system|>' + m.content + '<|tool|>' + (tools | tojson) + '<|/tool|><|end|>' }}{% else %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}`;

const deepseek = `{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}{% if tools %}{{ '\\n\\n## Tools' }}{% for t in tools %}{{ '\\n' + (t | tojson) }}{% endfor %}{% endif %}{% for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}{% elif m.role == 'assistant' %}{% if messages[loop.index0 - 1].role != 'tool' %}{{ '<｜Assistant｜>' }}{% endif %}{% if m['content'] is none %}{% for c in m['tool_calls'] %}{{ ('<｜calls｜>' if loop.first else '\\n') + c.function.name + '\\n\`\`\`json\\n' + c.function.arguments + '\\n\`\`\`' }}{% endfor %}{{ '<｜/calls｜>' + eos_token }}{% else %}{{ m['content'] }}{% for c in m.tool_calls or [] %}{{ '<｜calls｜>' + c.function.name + '\\n\`\`\`json\\n' + c.function.arguments + '\\n\`\`\`<｜/calls｜>' }}{% endfor %}{{ eos_token }}{% endif %}{% elif m.role == 'tool' %}{{ '<｜output｜>' + m.content + '<｜/output｜>' }}{% endif %}{% endfor %}{% if add_generation_prompt and messages[-1].role != 'tool' %}{{ '<｜Assistant｜>' }}{% endif %}`;

const zephyr = `{% for m in messages %}{% if m.role == 'user' %}{{ '<|user|>\\n' + m.content + eos_token }}{% elif m.role == 'system' %}{{ '<|system|>\\n' + m.content + eos_token }}{% elif m.role == 'assistant' %}{{ '<|assistant|>\\n' + m.content + eos_token }}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}`;

export const TEMPLATES: readonly NamedTemplate[] = [
  {
    name: 'Llama 3',
    source: llama3,
    bos: '<|begin_of_text|>',
    eos: '<|end_of_text|>',
    end: '<|eot_id|>',
    without: ['two calls'],
  },
  { name: 'Qwen2.5', source: qwen25, ...IM, eos: '<|endoftext|>' },
  { name: 'Qwen3', source: qwen3, ...IM },
  { name: 'Mistral', source: mistral, bos: '<s>', eos: '</s>', end: '</s>' },
  { name: 'Gemma', source: gemma, bos: '<bos>', eos: '<eos>', end: '<end_of_turn>', without: ['calls'] },
  { name: 'Phi', source: phi, bos: null, eos: '<|endoftext|>', end: '<|end|>', without: ['calls'] },
  { name: 'ChatML', source: chatml, ...IM, without: ['calls'] },
  { name: 'DeepSeek', source: deepseek, bos: '<｜begin｜>', eos: '<｜end｜>', end: '<｜end｜>' },
  { name: 'Hermes', source: hermes, ...IM },
  { name: 'Zephyr', source: zephyr, bos: null, eos: '</s>', end: '</s>', without: ['calls'] },
];

/** Tokens of all of them, so that one vocabulary serves every template. */
export const SPECIAL: readonly string[] = [
  ...['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
  ...['<|begin_of_text|>', '<|end_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
  ...['<s>', '</s>', '[INST]', '[/INST]', '[TOOL_CALLS]', '[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]'],
  ...['[TOOL_RESULTS]', '[/TOOL_RESULTS]', '<bos>', '<eos>', '<start_of_turn>', '<end_of_turn>'],
  ...['<|system|>', '<|user|>', '<|assistant|>', '<|end|>', '<|tool|>', '<|/tool|>'],
  ...[
    '<｜begin｜>',
    '<｜end｜>',
    '<｜User｜>',
    '<｜Assistant｜>',
    '<｜calls｜>',
    '<｜/calls｜>',
    '<｜output｜>',
    '<｜/output｜>',
  ],
];

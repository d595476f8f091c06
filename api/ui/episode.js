/** One episode as a conversation, with its execution matrices and judgements. */
import { ask, beginning, count, decimal, make, moreButton, notice, status, tableOf, when } from './elements.js';
import { matrixOf } from './matrix.js';

export async function episode(signal, _query, id) {
  const path = `/v1/episodes/${encodeURIComponent(id)}`;
  const all = await ask(path, signal);
  const list = make('ol', { class: 'talk' }, all.conversation.map(entryItem));
  const more = moreButton(all.next, async (next) => {
    const page = await ask(`${path}?${new URLSearchParams({ after: next })}`, signal);
    list.append(...page.conversation.map(entryItem));
    status.textContent = `${list.childElementCount} entries shown`;
    return page.next;
  });
  return [
    make('h2', {}, `Episode ${id}`),
    all.task?.query ? make('pre', { class: 'task' }, beginning(all.task.query, MESSAGE)) : null,
    facts(all.episode),
    all.truncated.length > 0 ? notice(`Only the beginning is shown: ${all.truncated.join(', ')}.`) : null,
    ...all.matrices.flatMap((matrix) => matrixOf(matrix)),
    make('h3', {}, 'Conversation'),
    all.conversation.length === 0 ? notice('Nothing was recorded in this episode yet.') : [list, more],
    judgements(all),
  ];
}

function facts(row) {
  const tags = row.tags
    ? Object.entries(row.tags)
        .map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : value}`)
        .join(' · ')
    : null;
  const shown = [
    ['Outcome', row.outcome ?? 'open'],
    ['Reward', row.reward === null ? 'none given' : count(row.reward)],
    ['Answer', row.answer],
    [
      'Task',
      row.task_id && make('a', { href: `#/episodes?${new URLSearchParams({ task_id: row.task_id })}` }, row.task_id),
    ],
    [
      'Group',
      row.group_id &&
        make('a', { href: `#/episodes?${new URLSearchParams({ group_id: row.group_id })}` }, row.group_id),
    ],
    ['Team', row.team_id],
    ['Started', when(row.started_at)],
    ['Ended because', row.stop_reason],
    ['Tokens', row.input_tokens === null ? null : `${row.input_tokens} in, ${count(row.output_tokens)} out`],
    ['Tags', tags],
    ['Flags', row.flags?.join(', ')],
  ];
  return make(
    'dl',
    { class: 'facts' },
    shown.filter(([, value]) => value).map(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]),
  );
}

function entryItem(entry) {
  if (entry.kind === 'call') return callItem(entry);
  if (entry.kind === 'tool_call') return toolItem(entry);
  if (entry.kind === 'decision')
    return item('decision', entry, [`decides ${entry.decision_kind}`], bodyText(null, entry.decision));
  return item('message', entry, [entry.channel && `to ${entry.channel}`], bodyText(entry.text, entry.content));
}

const item = (kind, { who, turn }, notes, ...below) =>
  make(
    'li',
    { class: kind },
    make('span', { class: 'who' }, who ?? 'unknown'),
    make('span', { class: 'quiet' }, [...notes, turn === null ? null : `turn ${turn}`].filter(Boolean).join(' · ')),
    ...below,
  );

/** Characters of one message that are shown. */
const MESSAGE = 100_000;

const written = (content) => (typeof content === 'string' ? content : JSON.stringify(content, null, 2));

/** A message of several parts, or of nothing but calls, has its parts in a list or beside what else is kept of it. */
function partsOf(content) {
  const parts = Array.isArray(content) ? content : content.parts;
  return Array.isArray(parts) && parts.every((part) => typeof part?.type === 'string') ? parts : [content];
}

function partText(part) {
  if (part?.type === 'tool_call') return `calls ${part.name} ${part.arguments_raw ?? JSON.stringify(part.arguments)}`;
  return typeof part?.content === 'string' ? part.content : written(part);
}

function bodyText(text, content) {
  const body = text ?? (content === null || content === undefined ? null : partsOf(content).map(partText).join('\n'));
  return [
    body === null ? make('p', { class: 'quiet' }, 'no text') : make('pre', {}, beginning(body, MESSAGE)),
    filesIn(content).map(fileLink),
  ];
}

/** What stands in the place of the images and files of a message. */
function filesIn(content) {
  if (content === null || typeof content !== 'object') return [];
  const named = typeof content.artifact_id === 'string' && typeof content.media_type === 'string';
  return named ? [content] : Object.values(content).flatMap(filesIn);
}

const SHOWN = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

function fileLink({ artifact_id: id, media_type: type, size }) {
  const href = `/v1/artifacts/${encodeURIComponent(id)}`;
  const about = `${type}, ${size} bytes`;
  return make(
    'a',
    { href, class: 'file' },
    SHOWN.includes(type) ? make('img', { src: href, alt: about, loading: 'lazy' }) : about,
  );
}

/** A call is one block: what is new in its prompt, then each candidate with its data and judgements. */
function callItem(call) {
  const shown = call.prompt.length;
  const notes = [
    call.role === call.who ? null : call.role,
    call.checkpoint_id ? `checkpoint ${call.checkpoint_id.slice(0, 12)}` : call.model,
    call.input_tokens === null ? null : `${call.input_tokens} tokens in`,
    call.output_tokens === null ? null : `${call.output_tokens} out`,
    call.latency_ms === null ? null : `${Math.round(call.latency_ms)} ms`,
    call.error ? `error: ${written(call.error)}` : null,
  ];
  const earlier = call.prompt_messages - shown;
  return item(
    'call',
    call,
    notes,
    earlier > 0
      ? make('p', { class: 'quiet' }, `prompt: ${shown} new of ${call.prompt_messages}, the others are above`)
      : null,
    call.prompt.map((message) =>
      make(
        'div',
        { class: 'prompt' },
        make('span', { class: 'quiet' }, [message.role, message.sender].filter(Boolean).join(' · ') || 'prompt'),
        bodyText(message.text, message.content),
      ),
    ),
    call.candidates.length === 0 ? make('p', { class: 'quiet' }, 'no answer recorded') : null,
    call.candidates.map((candidate) => candidateBlock(candidate, call.candidates.length)),
  );
}

function candidateBlock(candidate, of) {
  const judged = (kind, list) =>
    list.map(({ method, value, reason }) =>
      make(
        'span',
        { class: 'judged', title: reason },
        `${kind} ${value === null ? `none${reason ? ` (${reason})` : ''}` : decimal(value)} `,
        make('span', { class: 'quiet' }, method),
      ),
    );
  const notes = [
    of > 1 ? `candidate ${candidate.candidate + 1} of ${of}` : null,
    candidate.chosen === true ? 'chosen' : candidate.chosen === false ? 'not chosen' : null,
    candidate.finish_reason,
    candidate.tokens === null ? null : `${candidate.tokens} tokens`,
    candidate.untrainable === null ? 'trainable' : `not trainable: ${candidate.untrainable}`,
  ];
  return make(
    'div',
    { class: 'candidate' },
    make('span', { class: 'quiet' }, notes.filter(Boolean).join(' · ')),
    bodyText(candidate.text, candidate.content),
    judged('reward', candidate.rewards),
    judged('credit', candidate.credits),
    candidate.verdicts.map(({ method, keep, reason }) =>
      keep === false ? make('span', { class: 'judged', title: reason }, 'dropped by ', method) : null,
    ),
  );
}

function toolItem(tool) {
  const notes = [
    `calls ${tool.name ?? 'a tool'}`,
    tool.status ?? 'no result',
    ...tool.flags,
    tool.duration_ms === null ? null : `${Math.round(tool.duration_ms)} ms`,
    tool.parse_error,
  ];
  return item(
    'tool_call',
    { ...tool, who: tool.who ?? 'tool' },
    notes,
    bodyText(tool.arguments === null ? tool.arguments_raw : null, tool.arguments),
    tool.status === null ? null : bodyText(null, tool.output),
    tool.error ? bodyText(null, tool.error) : null,
  );
}

function judgements({ feedback, verdicts, scores, rewards, credits, blames }) {
  const rows = [
    ...feedback.map((row) => [
      'feedback',
      row.name,
      (row.target_id ?? row.target_kind) + (row.no_such_step ? ' (no such step)' : ''),
      row.label ?? row.value ?? (row.has_matrix ? 'matrix' : null),
      row.explanation ?? row.by,
    ]),
    ...verdicts.map((row) => [
      'verdict',
      row.method,
      row.step_id ?? 'episode',
      row.keep === null ? null : row.keep ? 'keep' : 'drop',
      row.reason,
    ]),
    ...scores.map((row) => ['score', row.method, 'episode', row.value, row.reason]),
    ...rewards.map((row) => ['reward', row.method, row.step_id ?? 'episode', row.value, row.reason]),
    ...credits.map((row) => ['credit', row.method, row.step_id, row.value, row.reason]),
    ...blames.map((row) => ['blame', row.method, row.step_id ?? row.agent_id, row.value, row.reason]),
  ];
  if (rows.length === 0) {
    return make('section', {}, make('h3', {}, 'Judgements'), notice('This episode has no feedback or judgements yet.'));
  }
  const shown = (value) => (typeof value === 'number' ? decimal(value) : count(value));
  return make(
    'section',
    {},
    make('h3', {}, 'Judgements'),
    tableOf({
      label: 'Judgements',
      head: ['Kind', 'Name', 'Of', 'Value', 'Why'],
      rows: rows.map((row) => row.map(shown)),
    }),
  );
}

/** One episode as a conversation, with its execution matrices and judgements. */
import {
  ask,
  beginning,
  count,
  counted,
  decimal,
  make,
  moreButton,
  notice,
  status,
  tableOf,
  when,
} from './elements.js';
import { matrixOf } from './matrix.js';
import { dots, lanes } from './plots.js';

/** Entries from which on an overview is shown, the lanes of it, and the rows of judgements. */
const [SEVERAL, LANES, JUDGEMENTS] = [4, 12, 1000];

export async function episode(signal, query, id) {
  const path = `/v1/episodes/${encodeURIComponent(id)}`;
  const all = await ask(path, signal);
  const at = query.get('at');
  const read = async (after) => {
    const page = await ask(`${path}?${new URLSearchParams({ after })}`, signal);
    for (const name of ['conversation', 'steps', 'verdicts', 'rewards', 'credits']) all[name].push(...page[name]);
    all.next = page.next;
    return page.conversation;
  };
  while (at !== null && all.next !== null && !all.conversation.some(isAt(all, at))) await read(all.next);
  const faults = faultsOf(all);
  /** Items of these entries; what they are matched with has to be read already. */
  const itemsOf = (entries) => {
    const named = faults.filter((fault) => fault.at !== null).map((fault) => [fault, isAt(all, fault.at)]);
    const isMeant = at === null ? () => false : isAt(all, at);
    return entries.map((entry) =>
      entryItem(
        entry,
        named.filter(([, isNamed]) => isNamed(entry)).map(([fault]) => fault),
        isMeant(entry),
      ),
    );
  };
  const list = make('ol', { class: 'talk' }, itemsOf(all.conversation));
  const overview = make('div', {}, overviewOf(all, id, faults));
  const judged = make('div', {}, judgements(all, id));
  const more = moreButton(all.next, async (after) => {
    const entries = await read(after);
    list.append(...itemsOf(entries));
    overview.replaceChildren(...overviewOf(all, id, faults));
    judged.replaceChildren(judgements(all, id));
    status.textContent = `${list.childElementCount} entries shown`;
    return all.next;
  });
  return [
    make('h2', {}, `Episode ${id}`),
    all.task?.query ? make('pre', { class: 'task' }, beginning(all.task.query, MESSAGE)) : null,
    facts(all),
    all.truncated.length > 0 ? notice(`Only the beginning is shown: ${all.truncated.join(', ')}.`) : null,
    at !== null && !all.conversation.some(isAt(all, at)) ? notice(`This episode has no entry ${at}.`) : null,
    faultList(faults, id),
    overview,
    ...all.matrices.flatMap((matrix) => matrixOf(matrix)),
    make('h3', {}, 'Conversation'),
    all.conversation.length === 0 ? notice('Nothing was recorded in this episode yet.') : [list, more],
    judged,
  ];
}

/** Whether an entry is the one that is meant by its own id, that of a step, or `entry:N`, a number of the record. */
const isAt = ({ steps }, at) => {
  const number = /^entry:(\d+)$/.exec(at)?.[1];
  const meant = number === undefined ? at : steps.find(({ seq }) => seq === Number(number))?.step_id;
  return ({ id, candidates = [] }) => id === meant || candidates.some(({ step_id }) => step_id === meant);
};
const placeLink = (id, at, text) =>
  make('a', { href: `#/episodes/${encodeURIComponent(id)}?${new URLSearchParams({ at })}` }, text);

/** What people and methods name as the failure: feedback of this kind, and of each attribution the one with the largest value. */
function faultsOf({ feedback, blames }) {
  const place = (step, entry) => step ?? (entry === null ? null : `entry:${entry}`);
  const first = new Map();
  for (const row of blames) {
    const best = first.get(row.method_key);
    if (best === undefined || (row.value ?? -Infinity) > (best.value ?? -Infinity)) first.set(row.method_key, row);
  }
  return [
    ...feedback
      .filter(({ kind }) => kind === 'failure')
      .map((row) => ({
        what: row.label ?? row.name,
        who: row.target_kind === 'agent' ? row.target_id : null,
        by: row.annotator ?? row.by,
        why: row.explanation,
        at: place(row.target_kind === 'step' && !row.no_such_step ? row.target_id : null, row.entry),
      })),
    ...[...first.values()]
      .filter(({ value, agent_id, step_id, entry }) => value !== 0 && (agent_id ?? step_id ?? entry) !== null)
      .map((row) => ({
        what: 'blame',
        who: row.agent_id,
        by: row.method,
        why: row.reason,
        at: place(row.step_id, row.entry),
      })),
  ];
}
const faultText = ({ what, who, by }) => `${what}${who === null ? '' : ` of ${who}`}${by === null ? '' : ` (${by})`}`;

const faultList = (faults, id) =>
  faults.length === 0
    ? null
    : make(
        'section',
        { class: 'notice faults' },
        make('h3', {}, 'What went wrong'),
        make(
          'ul',
          {},
          faults.map((fault) =>
            make(
              'li',
              {},
              faultText(fault),
              fault.at === null ? null : [', ', placeLink(id, fault.at, fault.at.replace(':', ' '))],
              fault.why === null ? null : `: ${beginning(fault.why, 600)}`,
            ),
          ),
        ),
      );

const isError = ({ kind, error, status }) =>
  (kind === 'call' || kind === 'tool_call') && (Boolean(error) || status === 'error');

/** Who did what in which order, and the credit and the reward of each step. */
function overviewOf(all, id, faults) {
  const entries = all.conversation;
  if (entries.length < SEVERAL) return [];
  const blamed = faults.flatMap(({ at }) => (at === null ? [] : [isAt(all, at)]));
  const callers = new Map(entries.filter(({ kind }) => kind === 'call').map(({ id: call, who }) => [call, who]));
  const speaker = ({ who, call_id: call }) => who ?? callers.get(call) ?? 'unknown';
  const names = [...new Set(entries.map(speaker))];
  const shown = names.length > LANES ? [...names.slice(0, LANES - 1), `${names.length - LANES + 1} others`] : names;
  const errors = entries.filter(isError).length;
  const marks = entries.map((entry, i) => {
    const isFault = blamed.some((meant) => meant(entry));
    const kind = entry.kind === 'tool_call' ? `calls ${entry.name ?? 'a tool'}` : entry.kind;
    return {
      x: i + 1,
      lane: Math.min(names.indexOf(speaker(entry)), shown.length - 1),
      look: `${entry.kind}${isFault || isError(entry) ? ' bad' : ''}`,
      title: `${i + 1}: ${speaker(entry)} · ${kind}${isError(entry) ? ' · error' : ''}${isFault ? ' · what went wrong' : ''}`,
      href: `#/episodes/${encodeURIComponent(id)}?${new URLSearchParams({ at: entry.id })}`,
    };
  });
  return [
    make('h3', {}, 'Who did what'),
    make(
      'p',
      { class: 'quiet' },
      `${all.next === null ? '' : `The first ${entries.length} entries. `}`,
      KINDS.filter(([kind]) => entries.some((entry) => entry.kind === kind)).map(([kind, name]) =>
        make('span', { class: `key ${kind}` }, name),
      ),
      errors + blamed.length > 0 ? make('span', { class: 'key bad' }, 'error, or named as what went wrong') : null,
    ),
    lanes({
      lanes: shown,
      marks,
      along: 'entries of the conversation',
      about: `${entries.length} entries of ${names.length} agents and other speakers, ${errors} of them errors`,
    }),
    judgedPlot(entries, 'credits', 'Credit by step'),
    judgedPlot(entries, 'rewards', 'Reward by step'),
  ]
    .flat()
    .filter(Boolean);
}
const KINDS = [
  ['call', 'model call'],
  ['tool_call', 'tool call'],
  ['message', 'message'],
  ['decision', 'decision'],
];

/** A point for each candidate that has a value; null where they are of fewer than two calls. */
function judgedPlot(entries, list, title) {
  const points = entries.flatMap(({ candidates = [], who }, i) =>
    candidates.flatMap((candidate) =>
      candidate[list]
        .filter(({ value }) => value !== null)
        .map(({ method, value }) => ({
          method,
          x: i + 1,
          y: value,
          title: `${method}, entry ${i + 1}, ${who}: ${decimal(value)}`,
        })),
    ),
  );
  if (new Set(points.map(({ x }) => x)).size < 2) return null;
  const methods = [...new Set(points.map(({ method }) => method))].slice(0, 6);
  const series = methods.map((method) => ({
    label: method,
    points: points.filter((point) => point.method === method),
  }));
  return [
    make('h3', {}, title),
    dots({
      series,
      xs: [1, entries.length],
      along: 'entries of the conversation',
      about: `${title}, by ${methods.join(', ')}; the conversation has every number`,
    }),
  ];
}

const listed = (members) =>
  members &&
  Object.entries(members)
    .map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : value}`)
    .join(' · ');

/** Time from one to the other, in the unit that suits it; null where one is unknown. */
function between(from, to) {
  if (!from || !to) return null;
  const seconds = (new Date(to) - new Date(from)) / 1000;
  return seconds < 100 ? `${Number(seconds.toPrecision(3))} s` : `${Math.round(seconds / 60)} min`;
}

function facts({ episode: row, steps }) {
  const weights = [...new Set(steps.map((step) => step.checkpoint_id ?? step.response_model ?? step.model))].filter(
    Boolean,
  );
  const linked = (name, value) =>
    value && make('a', { href: `#/episodes?${new URLSearchParams({ [name]: value })}` }, value);
  const shown = [
    ['Outcome', row.outcome ?? 'open'],
    ['Reward', row.reward === null ? 'none given' : count(row.reward)],
    ['Answer', row.answer && beginning(row.answer, MESSAGE)],
    ['Task', linked('task_id', row.task_id)],
    ['Group', linked('group_id', row.group_id)],
    ['Team', row.team_id],
    ['Weights', weights.join(' · ')],
    [
      'Recorded',
      `${counted(row.agents, 'agent')}, ${counted(row.calls, 'call')}, ${counted(row.tool_calls, 'tool call')}`,
    ],
    ['Started', when(row.started_at)],
    ['Took', between(row.started_at, row.finished_at)],
    ['Ended because', row.stop_reason],
    ['Tokens', row.input_tokens === null ? null : `${count(row.input_tokens)} in, ${count(row.output_tokens)} out`],
    ['Totals', listed(row.totals)],
    ['Tags', listed(row.tags)],
    ['Flags', row.flags?.join(', ')],
  ];
  return make(
    'dl',
    { class: 'facts' },
    shown.filter(([, value]) => value).map(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]),
  );
}

/** `faults` are those that name it; `current` is true for the entry that the address names. */
function entryItem(entry, faults, current) {
  const shown = shownOf(entry);
  if (current)
    for (const [name, value] of [
      ['aria-current', 'true'],
      ['tabindex', '-1'],
    ])
      shown.setAttribute(name, value);
  if (isError(entry)) shown.setAttribute('class', `${entry.kind} bad`);
  for (const fault of faults)
    shown.append(
      make('p', { class: 'fault' }, `${faultText(fault)}${fault.why === null ? '' : `: ${beginning(fault.why, 600)}`}`),
    );
  return shown;
}

function shownOf(entry) {
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

/** A part in words; images and files are shown below the text. */
function partText(part) {
  if (part?.type === 'tool_call') return `calls ${part.name} ${part.arguments_raw ?? JSON.stringify(part.arguments)}`;
  const text = part?.content ?? part?.text;
  if (typeof text === 'string') return part.type === undefined || part.type === 'text' ? text : `${part.type}: ${text}`;
  return filesIn(part).length > 0 ? [] : written(part);
}

/** A text that may need to be scrolled, which the keyboard does where it can be focused. */
const mayScroll = (text) => text.length > 500 || text.split('\n', 16).length > 15;

/** Text and parts; `text` is that of the parts of type text alone. */
function bodyText(text, content) {
  const parts = content === null || content === undefined ? [] : partsOf(content);
  const isAll = text !== null && parts.every((part) => part?.type === undefined || part.type === 'text');
  const body = isAll ? text : parts.flatMap(partText).join('\n');
  const files = filesIn(content);
  if (body === '' && text === null && files.length === 0) return make('p', { class: 'quiet' }, 'no text');
  return [make('pre', { tabindex: mayScroll(body) ? 0 : null }, beginning(body, MESSAGE)), files.map(fileLink)];
}

/** The images and files of a message: named by an artifact where they are large, and in their place where they are small. */
function filesIn(content) {
  if (typeof content === 'string') {
    const [, type, data] = /^data:([\w.+-]+\/[\w.+-]+);base64,(.*)$/s.exec(content) ?? [];
    return type === undefined ? [] : [inPlace(type, data)];
  }
  if (content === null || typeof content !== 'object') return [];
  const { artifact_id: id, media_type: type, size, data } = content;
  if (typeof type !== 'string') return Object.values(content).flatMap(filesIn);
  if (typeof id === 'string') return [{ href: `/v1/artifacts/${encodeURIComponent(id)}`, type, size }];
  return typeof data === 'string' ? [inPlace(type, data)] : [];
}
const inPlace = (type, data) => ({
  href: `data:${type};base64,${data}`,
  type,
  size: Math.floor((data.replace(/=+$/, '').length * 3) / 4),
});

const SHOWN = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

function fileLink({ href, type, size }) {
  const about = `${type}, ${size} bytes`;
  const shown = SHOWN.includes(type) ? make('img', { src: href, alt: about, loading: 'lazy' }) : about;
  // Browsers open no data URL.
  return make(
    href.startsWith('data:') ? 'span' : 'a',
    { href: href.startsWith('data:') ? null : href, class: 'file' },
    shown,
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

function judgements({ feedback, verdicts, scores, rewards, credits, blames, next }, id) {
  const step = (value, otherwise) => (value === null ? otherwise : placeLink(id, value, value));
  const entryOf = ({ entry }) => (entry === null ? '' : ` entry ${entry}`);
  const rows = [
    ...feedback.map((row) => [
      'feedback',
      row.name,
      row.target_kind === 'step' && !row.no_such_step
        ? step(row.target_id)
        : (row.target_id ?? row.target_kind) + entryOf(row) + (row.no_such_step ? ' (no such step)' : ''),
      row.label ?? row.value ?? (row.has_matrix ? 'matrix' : null),
      row.explanation ?? row.by,
    ]),
    ...scores.map((row) => ['score', row.method, 'episode', row.value, row.reason]),
    ...blames.map((row) => [
      'blame',
      row.method,
      step(row.step_id, row.agent_id + entryOf(row)),
      row.value,
      row.reason,
    ]),
    ...verdicts.map((row) => [
      'verdict',
      row.method,
      step(row.step_id, 'episode'),
      row.keep === null ? null : row.keep ? 'keep' : 'drop',
      row.reason,
    ]),
    ...rewards.map((row) => ['reward', row.method, step(row.step_id, 'episode'), row.value, row.reason]),
    ...credits.map((row) => ['credit', row.method, step(row.step_id), row.value, row.reason]),
  ];
  if (rows.length === 0) {
    return make('section', {}, make('h3', {}, 'Judgements'), notice('This episode has no feedback or judgements yet.'));
  }
  const left = [
    rows.length > JUDGEMENTS ? `The first ${JUDGEMENTS} of ${rows.length}; those of a step stand beside it too.` : null,
    next === null ? null : 'Those of entries that are not shown yet are left out.',
  ].filter(Boolean);
  const shown = (value) =>
    typeof value === 'number' ? decimal(value) : typeof value === 'object' && value !== null ? value : count(value);
  return make(
    'section',
    {},
    make('h3', {}, 'Judgements'),
    left.length === 0 ? null : notice(left.join(' ')),
    tableOf({
      label: 'Judgements',
      head: ['Kind', 'Name', 'Of', 'Value', 'Why'],
      rows: rows.slice(0, JUDGEMENTS).map((row) => row.map(shown)),
    }),
  );
}

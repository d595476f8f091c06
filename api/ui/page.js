/**
 * The page: rounds with their curve, episodes, and one episode as a conversation with its execution matrix. It calls only
 * this server. Its data comes from agents and models, so it is only ever set as text, never parsed as HTML.
 */

const main = document.querySelector('#main');
const status = document.querySelector('#status');
const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children; text children stay text. `on…` attributes are listeners. */
function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}
function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** JSON of this server; an error has the text of the problem document. */
async function ask(path, signal) {
  let response;
  try {
    response = await fetch(path, { signal, headers: { accept: 'application/json' } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The server does not respond. Is `troupe run serve` running?');
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new Error(
    [body.detail ?? `The server responded with ${response.status}.`, body.hint].filter(Boolean).join(' '),
  );
}

const count = (value) => (value === null || value === undefined ? '–' : String(value));
const percent = (share) => (share === null || share === undefined ? '–' : `${(100 * share).toFixed(1)} %`);
const decimal = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(3));
function when(time) {
  const date = time ? new Date(time) : null;
  if (!date || Number.isNaN(date.getTime())) return make('span', { class: 'quiet' }, 'unknown');
  return make('time', { datetime: time, title: time }, date.toLocaleString());
}
const episodeLink = (id) => make('a', { href: `#/episodes/${encodeURIComponent(id)}` }, id);
/** Reads the next page when it is pressed; `read` shows it and returns what comes after, null at the end. */
function moreButton(first, read) {
  let next = first;
  const press = async () => {
    button.disabled = true;
    try {
      next = await read(next);
      button.hidden = next === null;
    } catch (error) {
      if (error.name !== 'AbortError') status.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  };
  const button = make('button', { type: 'button', hidden: first === null, onclick: press }, 'Show more');
  return button;
}
const notice = (...children) => make('p', { class: 'notice' }, ...children);

/* ── rounds ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/** The series that are drawn if present, and their names; precision is never shown without the true-negative rate. */
const CURVES = [
  ['pass_at_1', 'pass@1'],
  ['best_of_n', 'best of n'],
  ['verifier_precision', 'verifier precision'],
  ['rejection_rate', 'rejection rate'],
  ['majority', 'majority'],
  ['hard_pass_at_1', 'pass@1, hard'],
];

async function rounds(signal) {
  const { items } = await ask('/v1/rounds', signal);
  if (items.length === 0) {
    return [
      make('h2', {}, 'Rounds'),
      notice(
        'Nothing has been released yet. A round appears here once a policy is released, for instance by ',
        make('code', {}, 'troupe demo'),
        '.',
      ),
    ];
  }
  const runs = runsOf(items);
  return [
    make('h2', {}, 'Rounds'),
    ...runs.reverse().flatMap(([name, run]) => [make('h3', {}, name), ...roundsOf(run)]),
  ];
}

/** Releases of one run follow each other; where their own numbering begins again, or somebody else releases, another run begins. */
function runsOf(items) {
  const runs = [];
  let last = null;
  for (const item of items) {
    const policies = Object.keys(item.policies).sort().join(', ');
    const number = item.metrics.round;
    const goesOn =
      last && last.policies === policies && last.by === item.by && !(number !== undefined && number <= last.number);
    if (!goesOn) runs.push([`Policy ${policies}${item.by ? `, released by ${item.by}` : ''}`, []]);
    runs.at(-1)[1].push(item);
    last = { policies, by: item.by, number: number ?? -1 };
  }
  return runs;
}

function roundsOf(run) {
  const known = CURVES.filter(([metric]) => run.some(({ metrics }) => isShare(metrics[metric])));
  const others = [...new Set(run.flatMap(({ metrics }) => Object.keys(metrics)))].filter(
    (metric) => metric !== 'round' && !CURVES.some(([name]) => name === metric),
  );
  const shares = others.filter((metric) =>
    run.every(({ metrics }) => metrics[metric] === undefined || isShare(metrics[metric])),
  );
  const series = (known.length > 0 ? known : shares.map((metric) => [metric, metric])).slice(0, 6);
  return [
    series.length > 0 && run.length > 1 ? curve(run, series) : null,
    table(run, known, known.length > 0 ? [] : others),
  ];
}
const isShare = (value) => typeof value === 'number' && value >= 0 && value <= 1;

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 300, 46, 12, 12, 34];

function curve(run, series) {
  const x = (i) => LEFT + (i * (WIDTH - LEFT - RIGHT)) / Math.max(1, run.length - 1);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const svg = draw('svg', {
    class: 'curve',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': summary(run, series),
  });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(
      draw('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }),
      draw('text', { x: LEFT - 6, y: y(share) + 4, 'text-anchor': 'end' }, `${share * 100} %`),
    );
  }
  const every = Math.ceil(run.length / 9);
  for (const [i, { name, round }] of run.entries()) {
    if (i % every === 0)
      svg.append(
        draw(
          'text',
          { x: x(i), y: HEIGHT - 12, 'text-anchor': i === 0 ? 'start' : i === run.length - 1 ? 'end' : 'middle' },
          (name ?? `round ${round}`).slice(0, 14),
        ),
      );
  }
  for (const [k, [metric, label]] of series.entries()) {
    const points = run.map(({ metrics }, i) => (isShare(metrics[metric]) ? [x(i), y(metrics[metric])] : null));
    // A missing number leaves a gap: it is not 0.
    let pen = 'M';
    const path = points.map((point) => {
      if (!point) pen = 'M';
      const part = point ? `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}` : '';
      if (point) pen = 'L';
      return part;
    });
    svg.append(draw('path', { class: `series s${k} d${k}`, d: path.join('') }));
    for (const [i, point] of points.entries()) {
      if (!point) continue;
      const title = draw(
        'title',
        {},
        `${label}, ${run[i].name ?? `round ${run[i].round}`}: ${percent(run[i].metrics[metric])}`,
      );
      svg.append(draw('circle', { class: `mark s${k}`, cx: point[0], cy: point[1], r: 4 }, title));
    }
  }
  const legend = series.map(([, label], k) =>
    make(
      'li',
      {},
      draw(
        'svg',
        { viewBox: '0 0 36 14', 'aria-hidden': 'true' },
        draw('path', { class: `series s${k} d${k}`, d: 'M0 7L36 7', fill: 'none', 'stroke-width': 2.5 }),
      ),
      label,
    ),
  );
  return make('figure', { class: 'scroll' }, svg, make('ul', { class: 'legend' }, legend));
}

function summary(run, series) {
  const change = ([metric, label]) => {
    const values = run.map(({ metrics }) => metrics[metric]).filter(isShare);
    return `${label} from ${percent(values[0])} to ${percent(values.at(-1))}`;
  };
  return `${run.length} rounds: ${series.map(change).join('; ')}. The table has every number.`;
}

function table(run, known, others) {
  const cells = (metrics) => [
    ...known.map(([metric]) => make('td', { class: 'number' }, percent(metrics[metric]))),
    ...others.map((metric) =>
      make('td', { class: 'number' }, metrics[metric] === undefined ? '–' : decimal(metrics[metric])),
    ),
  ];
  const head = [...known.map(([, label]) => label), ...others].map((label) =>
    make('th', { scope: 'col', class: 'number' }, label),
  );
  const rows = run.map((item) =>
    make(
      'tr',
      {},
      make('th', { scope: 'row' }, item.name ?? item.release_id),
      ...cells(item.metrics),
      make(
        'td',
        {},
        Object.entries(item.policies).map(([policy, checkpoint]) =>
          make('div', { title: checkpoint }, `${policy}: ${checkpoint.slice(0, 16)}`),
        ),
      ),
      make('td', {}, when(item.released_at)),
    ),
  );
  return make(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Rounds as a table' },
    make(
      'table',
      {},
      make('caption', {}, 'Held-out results of each release, with its checkpoint.'),
      make(
        'thead',
        {},
        make(
          'tr',
          {},
          make('th', { scope: 'col' }, 'Round'),
          head,
          make('th', { scope: 'col' }, 'Checkpoint'),
          make('th', { scope: 'col' }, 'Released'),
        ),
      ),
      make('tbody', {}, rows),
    ),
  );
}

/* ── episodes ───────────────────────────────────────────────────────────────────────────────────────────────── */

const FILTERS = ['task_id', 'group_id', 'outcome', 'filter'];

async function episodes(signal, query) {
  const filters = new URLSearchParams(
    [...query].filter(([name, value]) => value !== '' && (FILTERS.includes(name) || name.startsWith('tag.'))),
  );
  let first;
  try {
    first = await ask(`/v1/episodes?${filters}`, signal);
  } catch (error) {
    // A filter that cannot be read stays in its box, to be mended.
    if (error.name === 'AbortError' || !filters.has('filter')) throw error;
    return [make('h2', {}, 'Episodes'), filterForm(filters), notice(error.message)];
  }
  const body = make('tbody', {}, first.items.map(episodeRow));
  const more = moreButton(first.next, async (next) => {
    const page = await ask(`/v1/episodes?${new URLSearchParams([...filters, ['after', next]])}`, signal);
    const rows = page.items.map(episodeRow);
    body.append(...rows);
    rows[0]?.querySelector('a')?.focus();
    status.textContent = `${body.childElementCount} episodes shown`;
    return page.next;
  });
  const columns = ['Episode', 'Task', 'Outcome', 'Reward', 'Calls', 'Steps', 'Tools', 'Feedback', 'Started'];
  const list = make(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Episodes' },
    make(
      'table',
      {},
      make(
        'thead',
        {},
        make(
          'tr',
          {},
          columns.map((name) => make('th', { scope: 'col' }, name)),
        ),
      ),
      body,
    ),
  );
  const isFiltered = [...filters].length > 0;
  const empty = isFiltered
    ? notice('No episode matches. ', make('a', { href: '#/episodes' }, 'Show all'))
    : notice(
        'No episodes yet. Send events to ',
        make('code', {}, 'POST /v1/events'),
        ', ask ',
        make('code', {}, 'POST /v1/chat/completions'),
        ', or run ',
        make('code', {}, 'troupe import'),
        '.',
      );
  const warnings = (first.warnings ?? []).map((warning) => notice(warning));
  return [make('h2', {}, 'Episodes'), filterForm(filters), ...warnings, first.items.length === 0 ? empty : list, more];
}

function filterForm(filters) {
  const fields = FILTERS.map((name) =>
    make(
      'label',
      {},
      `${name.replace('_id', '')} `,
      make('input', {
        name,
        value: filters.get(name) ?? '',
        size: name === 'filter' ? 44 : 14,
        placeholder: name === 'filter' ? 'reward >= 0.5 and count(tool_calls where error) = 0' : null,
      }),
    ),
  );
  const tag = [...filters].find(([name]) => name.startsWith('tag.'));
  fields.push(
    make(
      'label',
      {},
      'tag ',
      make('input', {
        name: 'tag',
        size: 18,
        placeholder: 'phase=rl',
        value: tag ? `${tag[0].slice(4)}=${tag[1]}` : '',
      }),
    ),
  );
  const submit = (event) => {
    event.preventDefault();
    const chosen = new URLSearchParams();
    for (const [name, value] of new FormData(event.target)) {
      if (value === '') continue;
      const split = value.indexOf('=');
      if (name !== 'tag') chosen.set(name, value);
      else if (split > 0) chosen.set(`tag.${value.slice(0, split)}`, value.slice(split + 1));
    }
    location.hash = `#/episodes?${chosen}`;
  };
  return make(
    'form',
    { onsubmit: submit, role: 'search', 'aria-label': 'Filter episodes' },
    fields,
    make('button', { type: 'submit' }, 'Filter'),
  );
}

function episodeRow(row) {
  const numbers = [row.calls, row.steps, row.tool_calls, row.feedback].map((value) =>
    make('td', { class: 'number' }, count(value)),
  );
  return make(
    'tr',
    {},
    make('th', { scope: 'row' }, episodeLink(row.episode_id)),
    make('td', { title: row.task_id }, (row.task ?? row.task_id ?? '–').slice(0, 90)),
    make('td', {}, row.outcome ?? (row.closed ? 'closed' : 'open')),
    make('td', { class: 'number' }, count(row.reward)),
    numbers,
    make('td', {}, when(row.started_at ?? row.last_at)),
  );
}

/* ── one episode ────────────────────────────────────────────────────────────────────────────────────────────── */

async function episode(signal, _query, id) {
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
    all.task?.query ? make('p', {}, all.task.query) : null,
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

const written = (content) => (typeof content === 'string' ? content : JSON.stringify(content, null, 2));

function bodyText(text, content) {
  const body = text ?? (content === null || content === undefined ? null : written(content));
  return body === null ? make('p', { class: 'quiet' }, 'no text') : make('pre', {}, body);
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
        `${kind} ${value === null ? (reason ?? 'none') : decimal(value)} `,
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

/** Programs by tests. A cell has a colour and a sign, so that it can be read without colour vision. */
function matrixOf(matrix) {
  const hidden = matrix.tests.some((test) => test.ground_truth) || matrix.programs.some((program) => program.reference);
  // A matrix that has nothing else, as most of those that reward a round, is shown at once.
  const all = matrix.tests.every((test) => test.ground_truth) || matrix.programs.every((program) => program.reference);
  const place = make('div', {
    class: 'scroll',
    tabindex: 0,
    role: 'region',
    'aria-label': `Execution matrix ${matrix.name}`,
  });
  const show = (truth) => place.replaceChildren(cells(matrix, truth));
  const toggle = make(
    'button',
    {
      type: 'button',
      'aria-pressed': 'false',
      onclick: (event) => {
        const truth = event.target.getAttribute('aria-pressed') !== 'true';
        event.target.setAttribute('aria-pressed', String(truth));
        event.target.textContent = truth ? 'Hide ground truth' : 'Show ground truth';
        show(truth);
      },
    },
    'Show ground truth',
  );
  show(all);
  return [
    make('h3', {}, 'Execution matrix'),
    make('p', { class: 'quiet' }, 'Rows are programs, columns are tests: ✓ passed, ✗ failed, · not run.'),
    hidden && !all ? make('p', {}, toggle) : null,
    place,
  ];
}

function cells({ programs, tests, pass }, truth) {
  const columns = tests.map((test, j) => ({ test, j })).filter(({ test }) => truth || !test.ground_truth);
  const rows = programs.map((program, i) => ({ program, i })).filter(({ program }) => truth || !program.reference);
  const testName = (test, j) =>
    test.ground_truth ? 'truth' : (test.public ? 'public ' : '') + (test.name ?? `T${j + 1}`);
  const flaw = (member) => (member.valid === false ? ' (malformed)' : '');
  const head = columns.map(({ test, j }) =>
    make(
      'th',
      { scope: 'col', class: test.ground_truth ? 'truth' : null, title: test.step_id ?? test.name },
      testName(test, j) + flaw(test),
    ),
  );
  const body = rows.map(({ program, i }) =>
    make(
      'tr',
      { class: program.reference ? 'reference' : null },
      make(
        'th',
        { scope: 'row', title: program.step_id ?? program.name },
        (program.reference ? 'reference' : (program.name ?? `P${i + 1}`)) + flaw(program),
      ),
      columns.map(({ test, j }) => {
        const cell = pass[i]?.[j] ?? null;
        const [look, sign, word] =
          cell === null ? ['unrun', '·', 'not run'] : cell ? ['pass', '✓', 'passed'] : ['fail', '✗', 'failed'];
        return make(
          'td',
          { class: `${look}${test.ground_truth ? ' truth' : ''}`, title: word, 'aria-label': word },
          sign,
        );
      }),
    ),
  );
  return make(
    'table',
    { class: 'matrix' },
    make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Program'), head)),
    make('tbody', {}, body),
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
    make('h3', {}, 'Judged'),
    make(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Judgements' },
      make(
        'table',
        {},
        make(
          'thead',
          {},
          make(
            'tr',
            {},
            ['Kind', 'Name', 'Of', 'Value', 'Why'].map((name) => make('th', { scope: 'col' }, name)),
          ),
        ),
        make(
          'tbody',
          {},
          rows.map((row) =>
            make(
              'tr',
              {},
              row.map((value) => make('td', {}, shown(value))),
            ),
          ),
        ),
      ),
    ),
  );
}

/* ── where we are ───────────────────────────────────────────────────────────────────────────────────────────── */

const PAGES = [
  [/^\/(?:rounds)?$/, rounds, 'Rounds'],
  [/^\/episodes$/, episodes, 'Episodes'],
  [/^\/episodes\/(.+)$/, episode, 'Episode'],
];

let under = new AbortController();

async function show() {
  under.abort();
  under = new AbortController();
  const { signal } = under;
  const [path, query = ''] = (location.hash.slice(1) || '/').split('?', 2);
  const [pattern, page, title] = PAGES.find(([candidate]) => candidate.test(path)) ?? PAGES[0];
  for (const link of document.querySelectorAll('nav a')) {
    if (path.startsWith(link.hash.slice(1)) || (path === '/' && link.hash === '#/rounds'))
      link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = `${title} · Troupe`;
  status.textContent = 'Loading …';
  main.setAttribute('aria-busy', 'true');
  try {
    const argument = pattern.exec(path)?.[1];
    const children = await page(
      signal,
      new URLSearchParams(query),
      argument === undefined ? undefined : decodeURIComponent(argument),
    );
    if (signal.aborted) return;
    main.replaceChildren(...children.flat(Infinity).filter(Boolean));
    status.textContent = '';
  } catch (error) {
    if (signal.aborted) return;
    const again = make('button', { type: 'button', onclick: show }, 'Try again');
    main.replaceChildren(make('div', { class: 'notice error', role: 'alert' }, make('p', {}, error.message), again));
    status.textContent = '';
  } finally {
    if (!signal.aborted) main.removeAttribute('aria-busy');
  }
}

addEventListener('hashchange', () => {
  show().then(() => main.focus());
});
show();

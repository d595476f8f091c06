/** The execution matrix of an episode. */
import { make } from './elements.js';

/** Programs by tests. A cell has a colour and a sign, so that it can be read without colour vision. */
export function matrixOf(matrix) {
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
    test.ground_truth
      ? 'truth'
      : (test.public && !/^public\b/.test(test.name) ? 'public ' : '') + (test.name ?? `T${j + 1}`);
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

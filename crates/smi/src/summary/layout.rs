//! Where the table's columns are, which three times moved with the driver: readers count them.

/// Widths between bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// First driver branch that has it.
    since: u32,
    /// Columns of the GPU table.
    pub(super) gpu: [usize; 3],
    /// Columns of the MIG table.
    pub(super) mig: [usize; 4],
    /// The driver's version, after the title and after its name.
    pub(super) versions: [usize; 2],
    /// A product name with the blanks after it, and the longest that is not cut.
    pub(super) name: [usize; 2],
    /// The power draw and its limit.
    pub(super) power: [usize; 2],
    /// Memory in use and in all.
    pub(super) memory: [usize; 2],
    /// The same of a MIG device, of its memory and of its window.
    pub(super) part: [usize; 2],
    /// A process's number and name.
    pub(super) process: [usize; 2],
    /// The blank line before the processes.
    pub(super) blank: usize,
    /// Ends of the line below the title.
    pub(super) end: char,
}

/// The first: what is not said of the others is as here.
const FIRST: Layout = Layout {
    since: 300,
    gpu: [31, 22, 22],
    mig: [18, 22, 11, 23],
    versions: [13, 13],
    name: [20, 18],
    power: [7, 4],
    memory: [10, 8],
    part: [10, 10],
    process: [10, 29],
    blank: 79,
    end: '|',
};

const R530: Layout = Layout {
    since: 530,
    gpu: [41, 22, 22],
    mig: [18, 32, 11, 23],
    versions: [23, 13],
    name: [31, 27],
    power: [17, 4],
    part: [19, 19],
    process: [10, 39],
    blank: 89,
    ..FIRST
};

const R550: Layout = Layout {
    since: 550,
    gpu: [41, 24, 22],
    mig: [18, 34, 11, 23],
    versions: [23, 15],
    power: [16, 5],
    memory: [11, 9],
    part: [19, 21],
    process: [10, 41],
    ..R530
};

const R570: Layout = Layout {
    since: 570,
    process: [16, 35],
    ..R550
};

const R580: Layout = Layout {
    since: 580,
    end: '+',
    ..R570
};

impl Layout {
    /// That of a driver branch; a version that is no driver's of NVIDIA has room for everything.
    pub(super) fn of(branch: u32) -> Layout {
        if branch < FIRST.since {
            return R550;
        }
        let all = [R580, R570, R550, R530];
        let mut fitting = all.into_iter().filter(|layout| layout.since <= branch);
        fitting.next().unwrap_or(FIRST)
    }

    /// Width between the outer bars.
    pub(super) fn width(&self) -> usize {
        self.gpu.iter().sum::<usize>() + 2
    }

    /// Whether lines are as short as they were at first.
    pub(super) fn is_short(&self) -> bool {
        self.since < R530.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_as_wide_as_the_frame() {
        for (branch, width) in [(470, 77), (535, 87), (550, 89), (570, 89), (590, 89)] {
            let layout = Layout::of(branch);
            assert_eq!(layout.width(), width);
            assert_eq!(layout.mig.iter().sum::<usize>() + 3, width, "{branch}");
            assert_eq!(
                layout.versions.iter().sum::<usize>() + 51,
                width,
                "{branch}"
            );
            // Bars, instances, kind and memory of a process take 37.
            assert_eq!(layout.process.iter().sum::<usize>() + 38, width, "{branch}");
        }
        assert_eq!(Layout::of(25), Layout::of(550));
        assert!(Layout::of(470).is_short() && !Layout::of(535).is_short());
    }
}
